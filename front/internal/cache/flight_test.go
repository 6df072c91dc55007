package cache_test

import (
	"cmp"
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

const fresh = "Cache-Control: max-age=600"

// crowd sends n concurrent requests and returns the responses.
func (s *site) crowd(n int, fields ...string) <-chan got {
	all := make(chan got, n)
	for range n {
		go func() { all <- s.get(fields...) }()
	}
	synctest.Wait()
	return all
}

// wantAll is want for n clients. Without a state, it may be any. It returns how often there was
// which.
func wantAll(t *testing.T, all <-chan got, n int, state cache.State, status int, body string) map[cache.State]int {
	t.Helper()
	states := make(map[cache.State]int)
	for range n {
		g := <-all
		g.want(t, cmp.Or(state, g.state), status, body)
		states[g.state]++
	}
	return states
}

// slowly makes the origin respond after a while.
func slowly(after time.Duration, status int, body string, fields ...string) origin {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(after):
			return response(status, body, fields...), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// pieces is a body that arrives in pieces, a second apart, and ends with err if that is not nil.
type pieces struct {
	ctx  context.Context
	left []string
	err  error
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		return 0, io.EOF
	}
	select {
	case <-time.After(time.Second):
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; p.left[0] == "" {
		p.left = p.left[1:]
	}
	return n, nil
}

func (p *pieces) Close() error { return nil }

// inPieces makes the origin respond with such a body.
func inPieces(length int64, err error, body ...string) origin {
	return func(r *http.Request) (*http.Response, error) {
		resp := response(200, "", fresh)
		resp.Body, resp.ContentLength = &pieces{r.Context(), body, err}, length
		return resp, nil
	}
}

// first makes the origin respond in one way to its first request, and then in another.
func (s *site) first(first, then origin) {
	s.respondBy(func(r *http.Request) (*http.Response, error) {
		if s.requests() == 1 {
			return first(r)
		}
		return then(r)
	})
}

// One request fetches for all others, also if there is a stale response.
func TestOneRequestFetchesForAll(t *testing.T) {
	for stale, state := range []cache.State{cache.StateMiss, cache.StateExpired} {
		inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
			if stale > 0 {
				s.becomesStale("old", "")
			}
			s.respondBy(slowly(time.Second, 200, "body", fresh))
			first := s.crowd(1)
			others := s.crowd(100)
			(<-first).want(t, state, 200, "body")
			wantAll(t, others, 100, cache.StateHit, 200, "body")
			s.wantRequests(1 + stale)
		})
	}
}

func TestOtherVariantsDoNotWait(t *testing.T) {
	inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
		s.respondBy(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("X") == "slow" {
				time.Sleep(3 * time.Second)
			}
			return response(200, r.URL.Path+r.Header.Get("X"), fresh, "Vary: X"), nil
		})
		s.get("X: 0").want(t, cache.StateMiss, 200, "/x0") // now the variants are known
		slow := s.crowd(1, "X: slow")
		start := time.Now()
		s.get("X: 1").want(t, cache.StateMiss, 200, "/x1")
		s.request("GET", "http://a.example/y", "X: slow2").want(t, cache.StateMiss, 200, "/yslow2")
		s.request("GET", "http://a.example/X", "X: 0").want(t, cache.StateMiss, 200, "/X0")
		testkit.Equal(t, time.Since(start), 0, "the wait of requests")
		(<-slow).want(t, cache.StateMiss, 200, "/xslow")
	})
}

// A request that waited for a response of another variant fetches its own.
func TestWaitingRequestOfAnotherVariantFetches(t *testing.T) {
	inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
		s.respondBy(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return response(200, r.Header.Get("X"), fresh, "Vary: X"), nil
		})
		one, two := s.crowd(1, "X: 1"), s.crowd(3, "X: 2")
		(<-one).want(t, cache.StateMiss, 200, "1")
		states := wantAll(t, two, 3, "", 200, "2")
		testkit.Equal(t, states, map[cache.State]int{cache.StateMiss: 1, cache.StateHit: 2})
		s.wantRequests(2)
	})
}

func TestFailureOfLeaderIsItsOwn(t *testing.T) {
	inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
		var failed context.Context
		s.first(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			failed = r.Context()
			return nil, errOrigin
		}, slowly(time.Second, 200, "body", fresh))
		first, others := s.crowd(1), s.crowd(10)
		testkit.Error(t, (<-first).err, errOrigin.Error())
		testkit.Error(t, failed.Err(), "", "the context of the fetch")
		wantAll(t, others, 10, "", 200, "body")
		s.wantRequests(2)
	})
}

func TestPanicOfLeaderReleasesOthers(t *testing.T) {
	inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
		s.first(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			panic("origin")
		}, slowly(time.Second, 200, "body", fresh))
		go func() {
			defer func() {
				testkit.Equal(t, recover(), any("origin"), "the panic that is propagated")
			}()
			s.get()
		}()
		synctest.Wait()
		s.get().want(t, cache.StateMiss, 200, "body")
	})
}

func TestFetchContinuesAfterLeaderDisconnects(t *testing.T) {
	const url = "http://a.example/x"
	for when, after := range map[string]time.Duration{"before the head": time.Second / 2,
		"within the body": 5 * time.Second / 2} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
				s.respondBy(func(r *http.Request) (*http.Response, error) {
					time.Sleep(time.Second)
					return inPieces(-1, nil, "a", "b", "c")(r)
				})
				ctx, cancel := context.WithCancel(t.Context())
				first := make(chan got, 1)
				go func() { first <- s.query(cache.Query{Context: ctx}, "GET", url) }()
				synctest.Wait()
				others := s.crowd(5)
				time.Sleep(after)
				cancel()
				testkit.Error(t, (<-first).err, "context canceled", "the leader")
				wantAll(t, others, 5, cache.StateHit, 200, "abc")
				s.wantRequests(1)
			})
		})
	}
}

func TestBrokenBodyIsNotStored(t *testing.T) {
	for what, broken := range map[string]origin{
		"an error": inPieces(-1, errOrigin, "a", "b"), "too short": inPieces(10, nil, "a", "b"),
		"too long": inPieces(1, nil, "a", "b"),
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
				s.first(broken, slowly(0, 200, "whole", fresh))
				first, others := s.crowd(1), s.crowd(3)
				testkit.Error(t, (<-first).err, "", "the leader")
				wantAll(t, others, 3, "", 200, "whole")
			})
		})
	}
}

// A request that has waited too long goes to the origin, and its response is not stored.
func TestLockTimeoutEndsWait(t *testing.T) {
	inBubble(t, conf.CachePolicy{Lock: true, LockTimeout: 2 * time.Second, LockAge: time.Hour},
		func(t *testing.T, s *site) {
			s.first(slowly(time.Minute, 200, "first", fresh), slowly(0, 200, "second", fresh))
			first := s.crowd(1)
			begin := time.Now()
			s.get().want(t, cache.StateMiss, 200, "second")
			testkit.Equal(t, time.Since(begin), 2*time.Second, "the wait of the request")
			(<-first).want(t, cache.StateMiss, 200, "first")
			s.get().want(t, cache.StateHit, 200, "first")
		})
}

// If the leader takes too long, another request fetches and stores the response.
func TestLockAgeAllowsAnotherFetch(t *testing.T) {
	inBubble(t, conf.CachePolicy{Lock: true, LockTimeout: time.Hour, LockAge: 2 * time.Second},
		func(t *testing.T, s *site) {
			s.first(slowly(time.Minute, 200, "first", fresh), slowly(time.Second, 200, "second", fresh))
			first, others := s.crowd(1), s.crowd(3)
			begin := time.Now()
			states := wantAll(t, others, 3, "", 200, "second")
			testkit.Equal(t, time.Since(begin), 3*time.Second, "the wait")
			testkit.Equal(t, states, map[cache.State]int{cache.StateMiss: 1, cache.StateHit: 2})
			<-first
		})
}

// Without a lock all requests fetch. A response whose end arrives late does not replace a newer one.
func TestOlderResponseDoesNotReplaceNewer(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.first(inPieces(-1, nil, "fir", "st"), slowly(time.Second, 200, "second", fresh))
		first := s.crowd(1)
		s.get().want(t, cache.StateMiss, 200, "second")
		synctest.Wait() // until it is on disk
		s.cache.Unload()
		(<-first).want(t, cache.StateMiss, 200, "first")
		s.get().want(t, cache.StateHit, 200, "second")
	})
}

// Requests do not queue for responses that cannot be stored, unless the origin fails.
func TestUnstorableResponsesDoNotQueue(t *testing.T) {
	for status, later := range map[int]time.Duration{200: time.Second, 503: 2 * time.Second} {
		inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
			s.respondBy(slowly(time.Second, status, "body"))
			for _, want := range []time.Duration{2 * time.Second, later} {
				begin := time.Now()
				wantAll(t, s.crowd(10), 10, cache.StateMiss, status, "body")
				testkit.Equal(t, time.Since(begin), want, "status", status, "takes")
			}
		})
	}
}

func TestWaitingClientMayDisconnect(t *testing.T) {
	inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
		s.respondBy(slowly(4*time.Second, 200, "body", fresh))
		first := s.crowd(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if g := s.query(cache.Query{Context: ctx}, "GET", "http://a.example/x"); g.err == nil ||
			time.Since(begin) != time.Second {
			t.Errorf("got %+v after %v", g, time.Since(begin))
		}
		(<-first).want(t, cache.StateMiss, 200, "body")
	})
}

// A body is sent as it arrives, before it is known whether it can be stored. A body that is too
// long is sent, too.
func TestTooLongBodyIsSentAndNotStored(t *testing.T) {
	for what, length := range map[string]int64{"known": 1 << 20, "unknown": -1} {
		t.Run(what, func(t *testing.T) {
			inCache(t, conf.Cache{MemoryBytes: 1 << 20}, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
				body := big(1 << 20)
				s.respondBy(func(*http.Request) (*http.Response, error) {
					r := response(200, body, fresh)
					r.ContentLength = length
					return r, nil
				})
				for range 2 {
					s.get().want(t, cache.StateMiss, 200, body)
				}
				s.wantEmpty()
				if g := s.get("Range: bytes=1000000-1000001"); g.body != body[1000000:1000002] && g.body != body {
					t.Errorf("a range got %d with %d bytes", g.status, len(g.body))
				}
			})
		})
	}
}

// A condition that the origin did not see, because its response might have been stored, is still
// evaluated.
func TestConditionsOfUnstoredResponse(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.responds(200, "0123456789", `Etag: "v1"`, "Cache-Control: no-store")
		s.get(`If-None-Match: "v1"`).want(t, cache.StateMiss, 304, "")
		s.get("Range: bytes=2-3").want(t, cache.StateMiss, 206, "23")
		s.get("Range: bytes=20-").want(t, cache.StateMiss, 416, "")
		s.get("If-None-Match: x").want(t, cache.StateMiss, 200, "0123456789")
		// the bytes can be read only once
		s.get("Range: bytes=5-6,0-1").want(t, cache.StateMiss, 200, "0123456789")
		if n, _, _ := s.cache.Len(); n > 0 || len(s.lastRequest().Header) > 0 {
			t.Errorf("%d responses are stored, the origin received %v", n, s.lastRequest().Header)
		}
	})
}

// If an origin's body panics, the response ends, and not the process.
func TestPanicOfBodyEndsResponse(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.respondBy(func(*http.Request) (*http.Response, error) {
			r := response(200, "", fresh)
			r.Body, r.ContentLength = bomb{}, -1
			return r, nil
		})
		testkit.Error(t, s.get().err, "")
		testkit.Contains(t, s.log.String(), "bomb.Read", "the log")
	})
}

// bomb is a body that panics.
type bomb struct{}

func (bomb) Read([]byte) (int, error) { panic("bomb") }
func (bomb) Close() error             { return nil }

// A response that is not stored ends with its client's request, and one that only the cache wants
// after a while.
func TestAbandonedFetchEnds(t *testing.T) {
	for control, most := range map[string]time.Duration{"no-store": 10 * time.Second, "max-age=600": 2 * time.Minute} {
		inBubble(t, conf.CachePolicy{Lock: true}, func(t *testing.T, s *site) {
			ended := make(chan struct{})
			s.respondBy(func(r *http.Request) (*http.Response, error) {
				context.AfterFunc(r.Context(), func() { close(ended) })
				resp, err := inPieces(-1, nil, strings.Split(strings.Repeat("x", 1000), "")...)(r)
				resp.Header.Set("Cache-Control", control)
				return resp, err
			})
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Second, cancel)
			begin := time.Now()
			s.query(cache.Query{Context: ctx}, "GET", "http://a.example/x")
			<-ended
			testkit.Between(t, time.Since(begin), 10*time.Second, most, control, "the time of the fetch")
		})
	}
}
