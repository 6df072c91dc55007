package cache_test

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/cache"
)

// A background update does not look at the header of the request that began it, which the server may use for another request by then. The
// race detector reports it if it does.
func TestBackgroundUpdateWithoutItsRequest(t *testing.T) {
	policy := cache.Policy{Background: true, Stale: cache.Stale{Updating: true}}
	for _, fields := range [][]string{{"Cache-Control: no-store"}, {fresh, "Set-Cookie: a=b"}, {fresh, "Vary: *"}} {
		inBubble(t, policy, func(t *testing.T, s *site) {
			s.says(200, "old", "Cache-Control: max-age=1")
			s.get().want(t, cache.StateMiss, 200, "old")
			time.Sleep(2 * time.Second)
			s.answers(slowly(time.Second, 200, "new", fields...))
			r := httptest.NewRequest("GET", "http://a.example/x", nil)
			q := cache.Query{Context: r.Context(), Method: "GET", Header: r.Header, Rules: s.rules, Key: "http://a.example/x"}
			a, err := s.cache.Respond(q, visit{s, r})
			if err != nil || a.State != cache.StateStale {
				t.Fatalf("got %+v, %v", a, err)
			}
			a.Close()
			stop, done := make(chan struct{}), make(chan struct{})
			go func() { // the server has it now
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
