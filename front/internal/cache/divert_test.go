package cache_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
)

func divertsByField(_ int, h http.Header) bool { return h["X-Accel-Redirect"] != nil }

// A response that diverts authorizes one request: it is never stored, and replaces what is stored.
func TestDivertedIsNotStored(t *testing.T) {
	const redirect = "X-Accel-Redirect: /protected"
	policy := conf.CachePolicy{Valid: []conf.CacheValid{{For: time.Minute}},
		Stale: conf.CacheStale{Updating: true}, Lock: true}
	inBubble(t, policy, func(t *testing.T, s *site) {
		for range 2 {
			for _, method := range []string{"GET", "HEAD"} {
				s.responds(200, "", redirect, fresh, "X-Accel-Expires: 600")
				if got := s.request(method, "http://a.example/x"); got.state != cache.StateMiss ||
					got.header.Get("X-Accel-Redirect") == "" {
					t.Errorf("%s: %+v, want a miss that diverts", method, got)
				}
			}
		}
		s.responds(200, "stored", "Cache-Control: max-age=1")
		s.get().want(t, cache.StateMiss, 200, "stored")
		time.Sleep(2 * time.Second)
		s.responds(200, "", redirect)
		s.get().want(t, cache.StateExpired, 200, "")
		s.responds(200, "new", fresh)
		s.get().want(t, cache.StateMiss, 200, "new")
	})
}

// A 304 that diverts does not confirm the stored response.
func TestDivertedRevalidation(t *testing.T) {
	for _, background := range []bool{false, true} {
		policy := conf.CachePolicy{Revalidate: true, Background: background,
			Stale: conf.CacheStale{Updating: background}}
		inBubble(t, policy, func(t *testing.T, s *site) {
			s.responds(200, "stored", "Cache-Control: max-age=1", `Etag: "v1"`)
			s.get().want(t, cache.StateMiss, 200, "stored")
			time.Sleep(2 * time.Second)
			s.respondBy(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("If-None-Match") != "" {
					return response(304, "", "X-Accel-Redirect: /protected", fresh), nil
				}
				return response(200, "", "X-Accel-Redirect: /protected", fresh), nil
			})
			want := cache.StateExpired
			if background {
				s.get().want(t, cache.StateStale, 200, "stored")
				synctest.Wait()
				want = cache.StateMiss
			}
			for range 2 {
				if got := s.get(); got.state != want || got.header.Get("X-Accel-Redirect") == "" {
					t.Errorf("background %v: %+v, want %s that diverts", background, got, want)
				}
				want = cache.StateMiss
			}
		})
	}
}

// A location that ignores the field stores such a response. A location that does not ignore it
// never uses that.
func TestDivertedIsNotUsed(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		var err error
		if s.rules, err = cache.Compile(conf.CachePolicy{}, nil); err != nil {
			t.Fatal(err)
		}
		s.responds(200, "plain", "X-Accel-Redirect: /protected", fresh)
		s.get().want(t, cache.StateMiss, 200, "plain")
		s.get().want(t, cache.StateHit, 200, "plain")
		if s.rules, err = cache.Compile(conf.CachePolicy{}, divertsByField); err != nil {
			t.Fatal(err)
		}
		s.responds(403, "no")
		s.get().want(t, cache.StateMiss, 403, "no")
	})
}

// If a background update gets a 304 about another response after its request has ended, it does not
// send another request.
func TestBackgroundUpdateSendsOneRequest(t *testing.T) {
	policy := conf.CachePolicy{Revalidate: true, Background: true, Stale: conf.CacheStale{Updating: true}}
	inBubble(t, policy, func(t *testing.T, s *site) {
		s.responds(200, "old", "Cache-Control: max-age=1", `Etag: "v1"`)
		s.get().want(t, cache.StateMiss, 200, "old")
		time.Sleep(2 * time.Second)
		s.responds(304, "", `Etag: "v2"`, fresh)
		s.get().want(t, cache.StateStale, 200, "old")
		synctest.Wait()
		if n := s.requests(); n != 2 {
			t.Errorf("the origin received %d requests, want 2", n)
		}
		s.responds(200, "new", `Etag: "v2"`, fresh)
		s.get().want(t, cache.StateMiss, 200, "new")
	})
}
