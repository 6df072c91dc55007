package cache_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/byterange"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/testkit"
)

// The number of a key's variants is limited, whatever clients send.
func TestVariantsAreLimited(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.responds(200, "x", "Cache-Control: max-age=600", "Vary: X")
		for i := range 100 {
			s.get("X: "+strings.Repeat("x", i)).want(t, cache.StateMiss, 200, "x")
		}
		n, _, _ := s.cache.Len()
		testkit.Between(t, n, 1, 32, "variants")
		s.get("X: "+strings.Repeat("x", 99)).want(t, cache.StateHit, 200, "x")
	})
}

func TestUnsafeMethodsInvalidateStoredResponse(t *testing.T) {
	const url = "http://a.example/x"
	for _, test := range []struct {
		method string
		status int
		gone   bool
		off    bool
	}{
		{"POST", 200, true, false}, {"PUT", 204, true, false}, {"DELETE", 303, true, false},
		{"PATCH", 200, true, false}, {"UNKNOWN", 200, true, false},
		{"POST", 500, false, false}, {"POST", 404, false, false}, {"OPTIONS", 200, false, false},
		{"PROPFIND", 200, false, false},
		{"POST", 200, false, true}, {"DELETE", 204, false, true}, {"PURGE", 200, false, true},
	} {
		inBubble(t, conf.CachePolicy{Invalidate: !test.off}, func(t *testing.T, s *site) {
			s.responds(200, "old", fresh, "Vary: X")
			s.get("X: 1")
			s.get("X: 2")
			synctest.Wait()
			s.responds(test.status, "")
			s.request(test.method, url)
			s.responds(200, "new", "Cache-Control: max-age=60")
			state, body := cache.StateHit, "old"
			if test.gone {
				state, body = cache.StateMiss, "new"
			}
			s.get("X: 1").want(t, state, 200, body)
		})
	}
}

// A response on its way in is not stored if its key is invalidated or purged meanwhile.
func TestResponseInvalidatedOnItsWayIsNotStored(t *testing.T) {
	for name, change := range map[string]func(*site){
		"POST":  func(s *site) { s.request("POST", "http://a.example/x") },
		"Purge": func(s *site) { s.cache.Purge("http://a.example/x") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, conf.CachePolicy{Invalidate: true}, func(t *testing.T, s *site) {
				s.respondBy(func(r *http.Request) (*http.Response, error) {
					if r.Method == "GET" {
						time.Sleep(time.Second)
					}
					return response(200, "old", "Cache-Control: max-age=60"), nil
				})
				go s.get()
				time.Sleep(time.Second / 2)
				change(s)
				time.Sleep(time.Second)
				s.get().want(t, cache.StateMiss, 200, "old")
			})
		})
	}
}

// Several ranges become multipart, and one that selects nothing gets the length.
func TestRangesOfStoredResponses(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.stores("0123456789", fresh)
		g := s.get("Range: bytes=0-1,5-6")
		testkit.Equal(t, g.status, 206)
		testkit.Contains(t, g.body, "Content-Range: bytes 0-1/10\r\n")
		testkit.Contains(t, g.body, "\r\n\r\n56\r\n")
		s.get("Range: bytes="+strings.Repeat("0-0,", 20)+"1-1").want(t, cache.StateHit, 200, "0123456789")
		testkit.Equal(t, s.get("Range: bytes=-0").header.Get("Content-Range"), "bytes */10")
	})
}

// If the origin does not announce the length, a range is ignored, and no condition waits for the
// end.
func TestConditionsOfUnknownLength(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		var end func() error
		s.respondBy(func(*http.Request) (*http.Response, error) {
			r := response(200, "", "Cache-Control: max-age=60", `Etag: "v1"`)
			rest, feed := io.Pipe()
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("0123456789"), rest))
			r.ContentLength, end = -1, feed.Close
			return r, nil
		})
		s.get(`If-None-Match: "v1"`).want(t, cache.StateMiss, 304, "")
		_ = end()
		synctest.Wait()
		s.get("Range: bytes=1-2").want(t, cache.StateHit, 206, "12")
		s.get(`If-None-Match: "v1"`).want(t, cache.StateHit, 304, "")
		go func() {
			synctest.Wait()
			_ = end()
		}()
		s.request("GET", "http://a.example/y", "Range: bytes=1-2").want(t, cache.StateMiss, 200, "0123456789")
	})
}

var errOrigin = errors.New("the origin fails")

// Rejects may depend on the response. Then updates are not in the background.
func TestRefusedResponseIsNotStored(t *testing.T) {
	policy := conf.CachePolicy{Background: true, Stale: conf.CacheStale{Updating: true}}
	inBubble(t, policy, func(t *testing.T, s *site) {
		q := cache.Query{Rejects: func(resp *http.Response) bool { return resp.Header.Get("X-Private") != "" }}
		request := func() got { return s.query(q, "GET", "http://a.example/x") }
		s.responds(200, "one", "Cache-Control: max-age=60", "X-Private: 1")
		request().want(t, cache.StateMiss, 200, "one")
		request().want(t, cache.StateMiss, 200, "one")
		s.responds(200, "two", "Cache-Control: max-age=60")
		request().want(t, cache.StateMiss, 200, "two")
		request().want(t, cache.StateHit, 200, "two")
		time.Sleep(time.Minute)
		s.responds(200, "three", "Cache-Control: max-age=60", "X-Private: 1")
		request().want(t, cache.StateExpired, 200, "three")
		s.responds(200, "four", "Cache-Control: max-age=60")
		request().want(t, cache.StateExpired, 200, "four")
		request().want(t, cache.StateHit, 200, "four")
	})
}

func TestPurgeRemovesResponses(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.responds(200, "x", "Cache-Control: max-age=60", "Vary: X")
		urls := []string{"http://a.example/a/1", "http://a.example/a/2"}
		for _, url := range urls {
			s.request("GET", url)
			s.request("GET", url, "X: 1")
		}
		synctest.Wait()
		testkit.Equal(t, s.cache.Purge(urls[1]), 2, "responses purged")
		s.request("GET", urls[0]).want(t, cache.StateHit, 200, "x")
		testkit.Equal(t, s.cache.Purge(urls[0]), 2, "responses purged")
		s.wantEmpty()
		s.request("GET", urls[1]).want(t, cache.StateMiss, 200, "x")
	})
}

func TestInactiveResponseIsRemoved(t *testing.T) {
	inCache(t, conf.Cache{Inactive: time.Minute}, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.stores("x", "Cache-Control: max-age=3600")
		for range 5 {
			time.Sleep(50 * time.Second)
			s.get().want(t, cache.StateHit, 200, "x")
		}
		time.Sleep(75 * time.Second)
		s.wantEmpty()
	})
}

// Memory is limited, and popular responses outlast those requested once.
func TestPopularResponsesOutlastOthers(t *testing.T) {
	const room = 4 << 20
	inCache(t, conf.Cache{MemoryBytes: room}, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.responds(200, big(16<<10), "Cache-Control: max-age=3600")
		for range 3 {
			s.request("GET", "http://a.example/hot")
			time.Sleep(2 * time.Second)
		}
		for i := range 1000 {
			s.request("GET", "http://a.example/"+strings.Repeat("x", i))
			synctest.Wait()
			_, memory, _ := s.cache.Len()
			testkit.Between(t, memory, 1, room, "bytes in memory")
		}
		testkit.Equal(t, s.request("GET", "http://a.example/hot").state, cache.StateHit, "the popular response")
		n, _, _ := s.cache.Len()
		testkit.Between(t, n, 150, 1000, "responses")
	})
}

func TestConnectionFieldsAreNotStored(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.stores("x", fresh, "Connection: close, x-one", "X-One: 1", "Keep-Alive: timeout=5",
			"Transfer-Encoding: chunked", "Trailer: X-Two", "X-Three: 3")
		g := s.get()
		g.want(t, cache.StateHit, 200, "x")
		for _, name := range []string{"Connection", "X-One", "Keep-Alive", "Transfer-Encoding", "Trailer"} {
			testkit.Equal(t, g.header.Get(name), "", name)
		}
		testkit.Equal(t, g.header.Get("X-Three"), "3", "X-Three")
	})
}

// slowEnd is a body whose end comes a second after its last byte.
type slowEnd struct{ strings.Reader }

func (b *slowEnd) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		time.Sleep(time.Second)
	}
	return n, err
}

// whole is a client that calls a function after a number of bytes.
type whole struct {
	*httptest.ResponseRecorder
	bytes int
	then  func()
}

func (w *whole) Write(p []byte) (int, error) {
	if w.bytes -= len(p); w.bytes == 0 {
		w.then()
	}
	return w.ResponseRecorder.Write(p)
}

// A client that has the whole response finds it stored.
func TestWholeResponseIsStored(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.respondBy(func(*http.Request) (*http.Response, error) {
			resp := response(200, "body", "Cache-Control: max-age=60", "Content-Length: 4")
			resp.Body = io.NopCloser(&slowEnd{*strings.NewReader("body")})
			return resp, nil
		})
		a, r, err := s.find(cache.Query{}, "GET", "http://a.example/x")
		testkit.Must(t, err)
		defer a.Close()
		fetched := false
		w := &whole{httptest.NewRecorder(), 4, func() {
			fetched = true
			s.get().want(t, cache.StateHit, 200, "body")
		}}
		testkit.Check(t, a.Send(w, r, byterange.Selector{}))
		testkit.Equal(t, fetched, true, "fetched again")
	})
}

// A client whose response has no body finds it stored, too.
func TestResponseWithoutBodyIsStored(t *testing.T) {
	for method, status := range map[string]int{"GET": 204, "HEAD": 200} {
		inBubble(t, conf.CachePolicy{KeepHead: true}, func(t *testing.T, s *site) {
			s.respondBy(func(*http.Request) (*http.Response, error) {
				resp := response(status, "", fresh)
				resp.Body = io.NopCloser(&slowEnd{*strings.NewReader("")})
				return resp, nil
			})
			for _, want := range []cache.State{cache.StateMiss, cache.StateHit} {
				if got := s.request(method, "http://a.example/x"); got.state != want || got.status != status {
					t.Errorf("%s: %s %d, %v, want %s %d", method, got.state, got.status, got.err, want, status)
				}
			}
		})
	}
}

// A HEAD that is not converted has its own response, with the length of a body that it does not
// have. No GET receives it.
func TestHeadHasItsOwnResponse(t *testing.T) {
	const url = "http://a.example/x"
	for _, dir := range []string{"", t.TempDir()} {
		policy := conf.CachePolicy{KeepHead: true, Lock: true}
		inCache(t, conf.Cache{Name: "test", Dir: dir}, policy, func(t *testing.T, s *site) {
			s.respondBy(func(r *http.Request) (*http.Response, error) {
				resp := response(200, "12345", fresh, "Content-Length: 5", `Etag: "v1"`)
				if r.Method == http.MethodHead {
					resp.Body = http.NoBody
				}
				return resp, nil
			})
			for _, state := range []cache.State{cache.StateMiss, cache.StateHit} {
				got := s.request("HEAD", url)
				got.want(t, state, 200, "")
				testkit.Equal(t, got.header.Get("Content-Length"), "5", state, "Content-Length")
				synctest.Wait()
			}
			s.request("HEAD", url, `If-None-Match: "v1"`).want(t, cache.StateHit, 304, "")
			got := s.request("HEAD", url, `If-None-Match: "v2"`)
			got.want(t, cache.StateHit, 200, "")
			testkit.Equal(t, got.header.Get("Content-Length"), "5")
			s.get().want(t, cache.StateMiss, 200, "12345")
			s.get().want(t, cache.StateHit, 200, "12345")
			testkit.Equal(t, s.cache.Purge(url), 2, "responses purged")
			s.request("HEAD", url).want(t, cache.StateMiss, 200, "")
			s.get().want(t, cache.StateMiss, 200, "12345")
			// from the response to GET, as in nginx
			s.request("HEAD", url).want(t, cache.StateHit, 200, "")
		})
	}
}

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
		a, _, err := s.find(cache.Query{}, "GET", "http://a.example/switched")
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
		(<-crowd).want(t, cache.StateMiss, 200, "everybody's")
		s.query(body, "GET", "http://a.example/x").want(t, cache.StateHit, 200, "everybody's")
	})
}

// A stored response has the Date of the origin, or that of its arrival.
func TestStoredResponseHasDate(t *testing.T) {
	inBubble(t, conf.CachePolicy{Revalidate: true}, func(t *testing.T, s *site) {
		const date = "Sat, 01 Jan 2000 00:00:00 GMT" // synctest's clock begins at that time
		s.responds(200, "x", "Cache-Control: max-age=60", `Etag: "v1"`)
		for range 3 {
			got := s.get()
			testkit.Equal(t, got.header.Get("Date"), date, got.state, "Date")
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Minute)
		later := time.Now().UTC().Format(http.TimeFormat)
		s.responds(304, "", "Date: "+later, fresh)
		testkit.Equal(t, s.get().header.Get("Date"), later, "Date after a 304")
	})
}

// Nothing is stored under a long key, or in a cache that is closed.
func TestLongKeysAndClosedCachesStoreNothing(t *testing.T) {
	inBubble(t, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.responds(200, "x", "Cache-Control: max-age=60")
		for range 2 {
			s.request("GET", "http://a.example/"+strings.Repeat("k", 8<<10)).want(t, "", 200, "x")
		}
		s.cache.Close()
		for range 2 {
			s.get().want(t, cache.StateMiss, 200, "x")
		}
		s.wantRequests(4)
	})
}
