package cache_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
)

// A request to switch protocols is served from the cache, as in nginx. A switched connection
// belongs to the caller.
func TestUpgradeIsServedFromCache(t *testing.T) {
	inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
		s.responds(200, "x", fresh)
		for _, state := range []cache.State{cache.StateMiss, cache.StateHit} {
			s.get("Upgrade: websocket").want(t, state, 200, "x")
		}
		connection := &pieces{}
		s.respondBy(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 101, Header: http.Header{}, Body: connection, ContentLength: -1}, nil
		})
		r := httptest.NewRequest("GET", "http://a.example/switched", nil)
		q := cache.Query{Context: r.Context(), Method: "GET", Header: r.Header, Rules: s.rules, Key: "switched"}
		a, err := respond(s.cache, q, &visit{site: s, r: r})
		if err != nil || a.Passed == nil || a.Passed.Body != io.ReadCloser(connection) {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}

// A response that depends on a request body is not stored, because no key contains the body. The
// request still waits for others.
func TestResponseToRequestWithBodyIsNotStored(t *testing.T) {
	inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
		body := cache.Query{HasBody: true}
		s.responds(200, "of the body", fresh)
		s.query(body, "GET", "http://a.example/x").want(t, cache.StateMiss, 200, "of the body")
		s.respondBy(slowly(time.Second, 200, "everybody's", fresh))
		crowd := s.crowd(1)
		time.Sleep(time.Second / 2)
		s.query(body, "GET", "http://a.example/x").want(t, cache.StateHit, 200, "everybody's")
		got := <-crowd
		got.want(t, cache.StateMiss, 200, "everybody's")
	})
}
