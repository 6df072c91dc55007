package cache_test

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
)

// A background update does not read the header of the request that started it: the server may reuse
// that for another request. The race detector reports it otherwise.
func TestBackgroundUpdateDoesNotReadItsRequest(t *testing.T) {
	policy := conf.CachePolicy{Background: true, Stale: conf.CacheStale{Updating: true}}
	for _, fields := range [][]string{{"Cache-Control: no-store"}, {fresh, "Set-Cookie: a=b"}, {fresh, "Vary: *"}} {
		inBubble(t, policy, func(t *testing.T, s *site) {
			s.responds(200, "old", "Cache-Control: max-age=1")
			s.get().want(t, cache.StateMiss, 200, "old")
			time.Sleep(2 * time.Second)
			s.respondBy(slowly(time.Second, 200, "new", fields...))
			r := httptest.NewRequest("GET", "http://a.example/x", nil)
			q := cache.Query{Context: r.Context(), Method: "GET", Header: r.Header, Rules: s.rules,
				Key: "http://a.example/x"}
			a, err := respond(s.cache, q, &visit{site: s, r: r})
			if err != nil || a.State != cache.StateStale {
				t.Fatalf("got %+v, %v", a, err)
			}
			a.Close()
			stop, done := make(chan struct{}), make(chan struct{})
			go func() { // the server reuses the header
				defer close(done)
				r.Header["X-Other"] = []string{"x"}
				<-stop
				delete(r.Header, "X-Other")
			}()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			close(stop)
			<-done
		})
	}
}
