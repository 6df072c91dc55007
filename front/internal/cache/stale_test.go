package cache_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/testkit"
)

func TestNotModifiedRefreshesResponse(t *testing.T) {
	inBubble(t, conf.CachePolicy{Revalidate: true}, func(t *testing.T, s *site) {
		s.becomesStale("body", "", `Etag: "v1"`, "Last-Modified: Fri, 31 Dec 1999 00:00:00 GMT", "X: old",
			"Content-Type: a/b", "Status: 200 OK")
		s.responds(304, "", "Cache-Control: max-age=20", `Etag: W/"v1"`, "X: new", "Content-Type: c/d",
			"Content-Length: 77", "Status: 304 Not Modified")
		g := s.get(`If-None-Match: "v0"`)
		g.want(t, cache.StateRevalidated, 200, "body")
		testkit.Fields(t, s.lastRequest().Header, "the origin's request", "If-None-Match", `"v1"`,
			"If-Modified-Since", "Fri, 31 Dec 1999 00:00:00 GMT")
		for range 2 {
			testkit.Fields(t, g.header, "", "X", "new", "Content-Type", "a/b", "Content-Length", "4", "Etag", `"v1"`,
				"Status", "200 OK")
			time.Sleep(9 * time.Second)
			g = s.get()
			g.want(t, cache.StateHit, 200, "body")
		}
		time.Sleep(9 * time.Second)
		s.responds(200, "other", "Cache-Control: max-age=10", `Etag: "v2"`)
		s.get().want(t, cache.StateExpired, 200, "other")
		s.get().want(t, cache.StateHit, 200, "other")
	})
}

// After a 304 about another response, the whole response is fetched.
func TestNotModifiedOfAnotherResponseFetchesAnew(t *testing.T) {
	inBubble(t, conf.CachePolicy{Revalidate: true}, func(t *testing.T, s *site) {
		s.becomesStale("body", "", `Etag: "v1"`)
		s.respondBy(notModified("other", `Etag: "v2"`, fresh))
		s.get().want(t, cache.StateExpired, 200, "other")
		s.get().want(t, cache.StateHit, 200, "other")
	})
}

// notModified responds with 304 to requests with a condition, and to others with a body.
func notModified(body string, fields ...string) origin {
	return func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("If-None-Match") != "" {
			return response(304, "", fields...), nil
		}
		return response(200, body, fields...), nil
	}
}

func TestNotModifiedMayForbidStoring(t *testing.T) {
	inBubble(t, conf.CachePolicy{Revalidate: true, Stale: conf.CacheStale{Error: true}}, func(t *testing.T, s *site) {
		s.becomesStale("body", "", `Etag: "v1"`)
		s.responds(304, "", "Cache-Control: no-store")
		s.get().want(t, cache.StateRevalidated, 200, "body")
		s.fails(errOrigin)
		testkit.Error(t, s.get().err, errOrigin.Error())
	})
}

type kindOfError struct{ timeout, invalid bool }

func (e kindOfError) Error() string { return "an error" }

func (e kindOfError) Timeout() bool { return e.timeout }

func (e kindOfError) InvalidHeader() bool { return e.invalid }

func TestStaleResponseReplacesErrors(t *testing.T) {
	fails := func(err error) origin {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	status := func(n int) origin { return slowly(0, n, "error") }
	for _, test := range []struct {
		what    string
		stale   conf.CacheStale
		control string
		after   time.Duration
		origin  origin
		does    bool
	}{
		{"an error, no directive", conf.CacheStale{}, "", 11, fails(errOrigin), false},
		{"an error", conf.CacheStale{Error: true}, "", 11, fails(errOrigin), true},
		{"an error, must-revalidate", conf.CacheStale{Error: true}, ", must-revalidate", 11, fails(errOrigin), false},
		{"an error, proxy-revalidate", conf.CacheStale{Error: true}, ", proxy-revalidate", 11, fails(errOrigin), false},
		{"another error", conf.CacheStale{Timeout: true}, "", 11, fails(errOrigin), false},
		{"a timeout", conf.CacheStale{Timeout: true}, "", 11, fails(kindOfError{timeout: true}), true},
		{"a timeout is no error", conf.CacheStale{Error: true}, "", 11, fails(kindOfError{timeout: true}), false},
		{"an invalid header", conf.CacheStale{InvalidHeader: true}, "", 11, fails(kindOfError{invalid: true}), true},
		{"a status", conf.CacheStale{Statuses: []int{503}}, "", 11, status(503), true},
		{"another status", conf.CacheStale{Statuses: []int{503}}, "", 11, status(502), false},
		{"404", conf.CacheStale{Statuses: []int{404}}, "", 11, status(404), true},
		{"stale-if-error", conf.CacheStale{}, ", stale-if-error=10", 19, fails(errOrigin), true},
		{"stale-if-error of a status", conf.CacheStale{}, ", stale-if-error=10", 19, status(500), true},
		{"stale-if-error of no error", conf.CacheStale{}, ", stale-if-error=10", 19, status(404), false},
		{"stale-if-error is over", conf.CacheStale{}, ", stale-if-error=10", 21, fails(errOrigin), false},
	} {
		t.Run(test.what, func(t *testing.T) {
			inBubble(t, conf.CachePolicy{Stale: test.stale}, func(t *testing.T, s *site) {
				s.becomesStale("body", test.control)
				time.Sleep((test.after - 11) * time.Second)
				s.respondBy(test.origin)
				g := s.get()
				if test.does {
					g.want(t, cache.StateStale, 200, "body")
				} else if g.body == "body" {
					t.Errorf("got %+v", g)
				}
			})
		})
	}
}

func TestStaleResponseIsServedWhileUpdated(t *testing.T) {
	for control, policy := range map[string]conf.CachePolicy{
		"": {Stale: conf.CacheStale{Updating: true}}, ", stale-while-revalidate=30": {},
	} {
		inBubble(t, policy, func(t *testing.T, s *site) {
			s.becomesStale("old", control)
			s.respondBy(slowly(time.Second, 200, "new", "Cache-Control: max-age=10"+control))
			first := s.crowd(1)
			s.get().want(t, cache.StateUpdating, 200, "old")
			(<-first).want(t, cache.StateExpired, 200, "new")
			s.get().want(t, cache.StateHit, 200, "new")
			time.Sleep(41 * time.Second)
			if policy.Stale.Updating {
				return
			}
			go s.get() // beyond the limit in the response, the stale response is not served
			synctest.Wait()
			s.get().want(t, cache.StateExpired, 200, "new")
			// until the other request has its response, too: then the cache may be closed
			synctest.Wait()
		})
	}
}

// A response that must be revalidated is not served while it is updated.
func TestStrictResponseIsNotServedWhileUpdated(t *testing.T) {
	for _, control := range []string{"must-revalidate", "proxy-revalidate", "must-revalidate, stale-while-revalidate=30"} {
		inBubble(t, conf.CachePolicy{Stale: conf.CacheStale{Updating: true}}, func(t *testing.T, s *site) {
			s.becomesStale("old", ", "+control)
			s.respondBy(slowly(time.Second, 200, "new", fresh))
			updating := s.crowd(1)
			testkit.Equal(t, s.get().body, "new", control)
			<-updating
		})
	}
}

func TestBackgroundUpdate(t *testing.T) {
	inBubble(t, conf.CachePolicy{Background: true}, func(t *testing.T, s *site) {
		const control = ", stale-while-revalidate=30"
		s.becomesStale("old", control)
		s.respondBy(slowly(time.Second, 200, "new", "Cache-Control: max-age=10"+control))
		ctx, cancel := context.WithCancel(t.Context())
		s.query(cache.Query{Context: ctx}, "GET", "http://a.example/x").want(t, cache.StateStale, 200, "old")
		cancel() // the client's disconnect does not end the update
		s.get().want(t, cache.StateUpdating, 200, "old")
		time.Sleep(2 * time.Second)
		s.get().want(t, cache.StateHit, 200, "new")
		s.wantRequests(2)
		time.Sleep(11 * time.Second)
		s.respondBy(func(*http.Request) (*http.Response, error) { panic("origin") })
		s.get().want(t, cache.StateStale, 200, "new")
		for _, want := range []string{"cache test: the origin panicked: origin\n", "stale_test.go"} {
			// with the stack
			testkit.Contains(t, s.log.String(), want, "the log")
		}
		before := s.log.String()
		s.respondBy(func(*http.Request) (*http.Response, error) { panic(http.ErrAbortHandler) })
		s.get().want(t, cache.StateStale, 200, "new")
		testkit.Equal(t, s.log.String(), before, "log")
		s.fails(errOrigin)
		s.get().want(t, cache.StateStale, 200, "new")
	})
}

// dripping is a body with one byte per second.
type dripping struct {
	ctx     context.Context
	seconds int
}

func (s *dripping) Read(p []byte) (int, error) {
	if s.seconds == 0 {
		return 0, io.EOF
	}
	s.seconds--
	select {
	case <-time.After(time.Second):
		p[0] = 'x'
		return 1, nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

// A background update may take long, and happens once.
func TestSlowUpdateHappensOnce(t *testing.T) {
	for _, body := range []bool{false, true} {
		inBubble(t, conf.CachePolicy{Background: true, Stale: conf.CacheStale{Updating: true}}, func(t *testing.T,
			s *site) {
			const control = "Cache-Control: max-age=300"
			s.responds(200, "old", control)
			s.get()
			time.Sleep(301 * time.Second)
			s.respondBy(func(r *http.Request) (*http.Response, error) {
				if !body {
					time.Sleep(90 * time.Second)
					return response(200, "new", control), nil
				}
				resp := response(200, "", control)
				resp.ContentLength, resp.Body = 90, io.NopCloser(&dripping{r.Context(), 90})
				return resp, nil
			})
			s.get().want(t, cache.StateStale, 200, "old")
			for range 9 {
				s.get().want(t, cache.StateUpdating, 200, "old")
				time.Sleep(9 * time.Second)
			}
			time.Sleep(10 * time.Second)
			s.wantRequests(2)
			if g := s.get(); g.body == "old" || g.state != cache.StateHit {
				t.Errorf("got %s %q", g.state, g.body)
			}
			time.Sleep(2 * time.Minute) // until all updates have ended
		})
	}
}

// A response that is not stored leaves the stored one unchanged, even after a 304.
func TestNoStoreLeavesStoredResponse(t *testing.T) {
	inBubble(t, conf.CachePolicy{Revalidate: true}, func(t *testing.T, s *site) {
		s.becomesStale("body", "", `Etag: "v1"`)
		s.responds(304, "", "Cache-Control: max-age=10", "X-User: somebody")
		s.query(cache.Query{NoStore: true}, "GET", "http://a.example/x").want(t, cache.StateRevalidated, 200, "body")
		s.responds(304, "", "Cache-Control: max-age=10")
		g := s.get()
		g.want(t, cache.StateRevalidated, 200, "body")
		testkit.Equal(t, g.header.Get("X-User"), "", "X-User of another client's response")
	})
}

// A stale response that the origin has replaced by an unstorable one is not served during updates.
func TestReplacedResponseIsNotServedStale(t *testing.T) {
	q := cache.Query{IsStreamed: func(h http.Header) bool { return h.Get("Cache-Control") == "max-age=9" }}
	for control, status := range map[string]int{"no-store": 200, "no-store|Vary: *": 200, "private": 200,
		"max-age=0": 200, "max-age=9": 200, "": 404} {
		for _, behind := range []bool{false, true} {
			inBubble(t, conf.CachePolicy{Background: behind, Stale: conf.CacheStale{Updating: true}},
				func(t *testing.T, s *site) {
					s.becomesStale("old", "")
					s.responds(status, "new", strings.Split("Cache-Control: "+control, "|")...)
					s.query(q, "GET", "http://a.example/x")
					synctest.Wait()
					s.query(q, "GET", "http://a.example/x").want(t, cache.StateMiss, status, "new")
				})
		}
	}
}

// A background update does not read the header of the request that started it: the server may reuse
// that for another request. The race detector reports it otherwise.
func TestBackgroundUpdateDoesNotReadItsRequest(t *testing.T) {
	policy := conf.CachePolicy{Background: true, Stale: conf.CacheStale{Updating: true}}
	for _, fields := range [][]string{{"Cache-Control: no-store"}, {fresh, "Set-Cookie: a=b"}, {fresh, "Vary: *"}} {
		inBubble(t, policy, func(t *testing.T, s *site) {
			s.becomesStale("old", "")
			s.respondBy(slowly(time.Second, 200, "new", fields...))
			a, r, err := s.find(cache.Query{}, "GET", "http://a.example/x")
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
		s.becomesStale("stored", "")
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
			s.becomesStale("stored", "", `Etag: "v1"`)
			s.respondBy(notModified("", "X-Accel-Redirect: /protected", fresh))
			want := cache.StateExpired
			if background {
				s.get().want(t, cache.StateStale, 200, "stored")
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
		s.rules = testkit.Value(cache.Compile(conf.CachePolicy{}, false))(t)
		s.stores("plain", "X-Accel-Redirect: /protected", fresh)
		s.get().want(t, cache.StateHit, 200, "plain")
		s.rules = testkit.Value(cache.Compile(conf.CachePolicy{}, true))(t)
		s.responds(403, "no")
		s.get().want(t, cache.StateMiss, 403, "no")
	})
}

// If a background update gets a 304 about another response after its request has ended, it does not
// send another request.
func TestBackgroundUpdateSendsOneRequest(t *testing.T) {
	policy := conf.CachePolicy{Revalidate: true, Background: true, Stale: conf.CacheStale{Updating: true}}
	inBubble(t, policy, func(t *testing.T, s *site) {
		s.becomesStale("old", "", `Etag: "v1"`)
		s.responds(304, "", `Etag: "v2"`, fresh)
		s.get().want(t, cache.StateStale, 200, "old")
		testkit.Equal(t, s.requests(), 2, "requests that the origin received")
		s.responds(200, "new", `Etag: "v2"`, fresh)
		s.get().want(t, cache.StateMiss, 200, "new")
	})
}
