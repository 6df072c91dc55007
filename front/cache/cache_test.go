package cache_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/cache"
)

// site is an origin behind a cache.
type site struct {
	t     *testing.T
	cache *cache.Cache
	rules *cache.Rules
	said  *said

	mu     sync.Mutex
	answer func(*http.Request) (*http.Response, error)
	asked  []*http.Request // of the origin
}

func newSite(t *testing.T, config cache.Config, policy cache.Policy) *site {
	t.Helper()
	said := new(said)
	c, err := cache.New(config, log.New(said, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := cache.Compile(policy)
	if err != nil {
		t.Fatal(err)
	}
	return &site{t: t, cache: c, rules: rules, said: said}
}

// said is what the cache has said in its log.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// says has the origin answer with a status, a body and fields.
func (s *site) says(status int, body string, fields ...string) {
	s.answers(func(*http.Request) (*http.Response, error) { return response(status, body, fields...), nil })
}

func (s *site) answers(f func(*http.Request) (*http.Response, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func (s *site) asks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func (s *site) lastAsked() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

func response(status int, body string, fields ...string) *http.Response {
	header := headerOf(fields...)
	return &http.Response{
		StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// headerOf makes a header of "Name: value"s.
func headerOf(fields ...string) http.Header {
	header := make(http.Header)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		header.Add(name, value)
	}
	return header
}

// visit is one request of the origin's.
type visit struct {
	site *site
	r    *http.Request
}

func (v visit) Prepare(ask cache.OriginRequest) (cache.Fetch, error) {
	r := v.r.Clone(context.Background())
	r.Method = ask.Method
	ask.Apply(r.Header)
	return func(ctx context.Context) (*http.Response, error) {
		v.site.mu.Lock()
		v.site.asked = append(v.site.asked, r)
		answer := v.site.answer
		v.site.mu.Unlock()
		return answer(r.WithContext(ctx))
	}, nil
}

func (v visit) Sent() (http.Header, string) { return withoutConditions(v.r) }

// got is what a client got.
type got struct {
	status int
	header http.Header
	body   string
	state  cache.State
	err    error
}

func (s *site) get(fields ...string) got {
	return s.ask(http.MethodGet, "http://a.example/x", fields...)
}

func (s *site) ask(method, url string, fields ...string) got {
	return s.query(cache.Query{}, method, url, fields...)
}

func (s *site) query(q cache.Query, method, url string, fields ...string) got {
	r := httptest.NewRequest(method, url, nil)
	if q.Context != nil {
		r = r.WithContext(q.Context)
	}
	r.Header = headerOf(fields...)
	q.Context, q.Method, q.Header, q.Rules, q.Key = r.Context(), method, r.Header, s.rules, url
	a, err := s.cache.Respond(q, visit{s, r})
	if err != nil {
		return got{err: err}
	}
	w := httptest.NewRecorder()
	for name, values := range a.Header {
		w.Header()[name] = append([]string(nil), values...)
	}
	a.Mark(w.Header())
	if a.Passed != nil {
		w.WriteHeader(a.Status)
		_, err = io.Copy(w, a.Passed.Body)
		a.Passed.Body.Close()
	} else {
		err = a.Send(w, r)
		a.Close()
	}
	res := w.Result()
	body, _ := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(body), a.State, err}
}

// want fails unless a client got that.
func (g got) want(t *testing.T, state cache.State, status int, body string) {
	t.Helper()
	if g.err != nil || g.state != state || g.status != status || g.body != body {
		t.Errorf("got %s %d %.50q, %v; want %s %d %.50q", g.state, g.status, g.body, g.err, state, status, body)
	}
}

// inBubble runs a test with time of its own, in memory and on disk.
func inBubble(t *testing.T, policy cache.Policy, f func(t *testing.T, s *site)) {
	t.Helper()
	for name, config := range map[string]func() cache.Config{
		"memory": func() cache.Config { return cache.Config{Name: "test"} },
		"disk":   func() cache.Config { return cache.Config{Name: "test", Dir: t.TempDir(), Levels: []int{1, 2}} },
		"files":  func() cache.Config { return cache.Config{Name: "test", Dir: t.TempDir()} },
	} {
		t.Run(name, func(t *testing.T) {
			config := config()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, config, policy)
				defer s.cache.Close()
				if name == "files" {
					s.cache.NothingInMemory()
				}
				synctest.Wait() // the directory has been looked at
				f(t, s)
			})
		})
	}
}

func TestFreshness(t *testing.T) {
	date := func(d time.Duration) string { // synctest's clock begins then
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	tests := []struct {
		what   string
		fields []string
		policy cache.Policy
		fresh  time.Duration // 0 is not kept
	}{
		{"nothing said", nil, cache.Policy{}, 0},
		{"nothing said, Valid", nil, cache.Policy{Valid: []cache.Valid{{Statuses: []int{200}, For: time.Minute}}}, time.Minute},
		{"nothing said, Valid for all", nil, cache.Policy{Valid: []cache.Valid{{For: time.Minute}}}, time.Minute},
		{"nothing said, Valid for others", nil, cache.Policy{Valid: []cache.Valid{{Statuses: []int{404}, For: time.Minute}}}, 0},
		{"the first Valid counts", nil, cache.Policy{Valid: []cache.Valid{{Statuses: []int{200}}, {For: time.Minute}}}, 0},
		{"Last-Modified is no freshness", []string{"Last-Modified: " + date(-time.Hour)}, cache.Policy{}, 0},
		{"max-age", []string{"Cache-Control: max-age=60"}, cache.Policy{}, time.Minute},
		{"max-age before Valid", []string{"Cache-Control: max-age=60"}, cache.Policy{Valid: []cache.Valid{{For: time.Hour}}}, time.Minute},
		{"case", []string{"cache-control: MAX-AGE=60"}, cache.Policy{}, time.Minute},
		{"quoted", []string{`Cache-Control: max-age="60"`}, cache.Policy{}, time.Minute},
		{"max-age is no number", []string{"Cache-Control: max-age=1e3"}, cache.Policy{Valid: []cache.Valid{{For: time.Hour}}}, 0},
		{"max-age is too large for a number", []string{"Cache-Control: max-age=99999999999999999999"}, cache.Policy{}, 1 << 31 * time.Second},
		{"two of max-age", []string{"Cache-Control: max-age=60, max-age=5"}, cache.Policy{}, 5 * time.Second},
		{"in another's quotation", []string{`Cache-Control: x="max-age=60"`}, cache.Policy{}, 0},
		{"s-maxage before max-age", []string{"Cache-Control: max-age=5, s-maxage=60"}, cache.Policy{}, time.Minute},
		{"s-maxage=0", []string{"Cache-Control: max-age=5, s-maxage=0"}, cache.Policy{}, 0},
		{"Age counts", []string{"Cache-Control: max-age=60", "Age: 20"}, cache.Policy{}, 40 * time.Second},
		{"Age is too much", []string{"Cache-Control: max-age=60", "Age: 60"}, cache.Policy{}, 0},
		{"Expires", []string{"Expires: " + date(time.Minute), "Date: " + date(0)}, cache.Policy{}, time.Minute},
		{"Expires goes by Date", []string{"Expires: " + date(time.Hour+time.Minute), "Date: " + date(time.Hour)}, cache.Policy{}, time.Minute},
		{"Expires with two of Date", []string{"Expires: " + date(2*time.Minute), "Date: " + date(time.Minute), "Date: " + date(0)}, cache.Policy{}, 2 * time.Minute},
		{"Expires without Date", []string{"Expires: " + date(time.Minute)}, cache.Policy{}, time.Minute},
		{"Expires after max-age", []string{"Expires: " + date(time.Hour), "Cache-Control: max-age=60"}, cache.Policy{}, time.Minute},
		{"Expires is over", []string{"Expires: " + date(-time.Second)}, cache.Policy{Valid: []cache.Valid{{For: time.Hour}}}, 0},
		{"Expires: 0", []string{"Expires: 0"}, cache.Policy{Valid: []cache.Valid{{For: time.Hour}}}, 0},
		{"Expires twice", []string{"Expires: " + date(time.Hour), "Expires: 0"}, cache.Policy{}, 0},
		{"X-Accel-Expires", []string{"X-Accel-Expires: 60", "Cache-Control: max-age=5", "Expires: 0"}, cache.Policy{}, time.Minute},
		{"X-Accel-Expires: @", []string{"X-Accel-Expires: @946684860"}, cache.Policy{}, time.Minute},
		{"X-Accel-Expires: 0", []string{"X-Accel-Expires: 0", "Cache-Control: max-age=5"}, cache.Policy{}, 0},
		{"X-Accel-Expires before no-store", []string{"X-Accel-Expires: 60", "Cache-Control: no-store"}, cache.Policy{}, time.Minute},
		{"no-store", []string{"Cache-Control: no-store, max-age=60"}, cache.Policy{}, 0},
		{"no-store in another line", []string{"Cache-Control: max-age=60", "Cache-Control: no-store"}, cache.Policy{}, 0},
		{"no-cache", []string{"Cache-Control: max-age=60, no-cache"}, cache.Policy{}, 0},
		{"no-cache of fields", []string{`Cache-Control: max-age=60, no-cache="set-cookie, x"`}, cache.Policy{}, 0},
		{"private", []string{"Cache-Control: max-age=60, PRIVATE"}, cache.Policy{}, 0},
		{"private is no part of a word", []string{"Cache-Control: max-age=60, xprivate, privatex=1"}, cache.Policy{}, time.Minute},
		{"a quotation that does not end", []string{`Cache-Control: max-age=60, x="no-store`}, cache.Policy{}, 0},
		{"ignored Cache-Control", []string{"Cache-Control: private, max-age=5"},
			cache.Policy{Ignore: []string{"Cache-Control"}, Valid: []cache.Valid{{For: time.Minute}}}, time.Minute},
		{"ignored Expires", []string{"Expires: 0"}, cache.Policy{Ignore: []string{"Expires"}, Valid: []cache.Valid{{For: time.Minute}}}, time.Minute},
		{"ignored X-Accel-Expires", []string{"X-Accel-Expires: 0", "Cache-Control: max-age=60"},
			cache.Policy{Ignore: []string{"X-Accel-Expires"}}, time.Minute},
		{"Set-Cookie", []string{"Cache-Control: max-age=60", "Set-Cookie: a=b"}, cache.Policy{}, 0},
		{"ignored Set-Cookie", []string{"Cache-Control: max-age=60", "Set-Cookie: a=b"}, cache.Policy{Ignore: []string{"Set-Cookie"}}, time.Minute},
		{"Vary: *", []string{"Cache-Control: max-age=60", "Vary: Accept, *"}, cache.Policy{}, 0},
		{"ignored Vary", []string{"Cache-Control: max-age=60", "Vary: *"}, cache.Policy{Ignore: []string{"Vary"}}, time.Minute},
		{"too many fields in Vary", []string{"Cache-Control: max-age=60", "Vary: " + strings.Repeat("a, ", 17)}, cache.Policy{}, 0},
		{"a header that is too long", []string{"Cache-Control: max-age=60", "X: " + strings.Repeat("x", 64<<10)}, cache.Policy{}, 0},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, cache.Config{Inactive: 1 << 62}, test.policy)
				defer s.cache.Close()
				s.says(200, "body", test.fields...)
				s.get().want(t, cache.StateMiss, 200, "body")
				synctest.Wait()
				if test.fresh == 0 {
					s.get().want(t, cache.StateMiss, 200, "body")
					return
				}
				s.get().want(t, cache.StateHit, 200, "body")
				if test.fresh > time.Hour {
					return
				}
				time.Sleep(test.fresh - time.Millisecond)
				s.get().want(t, cache.StateHit, 200, "body")
				time.Sleep(time.Millisecond)
				s.get().want(t, cache.StateExpired, 200, "body")
			})
		})
	}
}

func TestStatuses(t *testing.T) {
	for status, kept := range map[int]bool{
		200: true, 203: true, 204: true, 206: false, 301: true, 304: false, 404: true, 410: true, 416: false, 500: true, 503: true,
	} {
		inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
			body := "body"
			if status == 204 || status == 304 {
				body = ""
			}
			s.says(status, body, "Cache-Control: max-age=60")
			s.get().want(t, cache.StateMiss, status, body)
			synctest.Wait()
			want := cache.StateMiss
			if kept {
				want = cache.StateHit
			}
			s.get().want(t, want, status, body)
		})
	}
}

func TestAuthorization(t *testing.T) {
	for control, kept := range map[string]bool{
		"max-age=60": false, "max-age=60, public": true, "s-maxage=60": true, "max-age=60, must-revalidate": true,
		"max-age=60, proxy-revalidate": false, "max-age=60, public, private": false,
	} {
		inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
			s.says(200, "secret", "Cache-Control: "+control)
			s.get("Authorization: Basic eA==").want(t, cache.StateMiss, 200, "secret")
			synctest.Wait()
			want := cache.StateMiss
			if kept {
				want = cache.StateHit
			}
			s.get().want(t, want, 200, "secret")
		})
	}
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.says(200, "mine", "Cache-Control: max-age=60")
		q := cache.Query{KeyedByAuthorization: true}
		s.query(q, "GET", "http://a.example/x?credential", "Authorization: a").want(t, cache.StateMiss, 200, "mine")
		synctest.Wait()
		s.query(q, "GET", "http://a.example/x?credential", "Authorization: a").want(t, cache.StateHit, 200, "mine")
	})
}

func TestAge(t *testing.T) {
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.answers(func(*http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second) // the origin's time counts: RFC 9111, 4.2.3
			return response(200, "x", "Cache-Control: max-age=60", "Age: 10"), nil
		})
		if g := s.get(); g.header.Get("Age") != "12" {
			t.Errorf("Age %q of what has just come, want 12", g.header.Get("Age"))
		}
		time.Sleep(5 * time.Second)
		if g := s.get(); g.state != cache.StateHit || g.header.Get("Age") != "17" || len(g.header["Age"]) != 1 {
			t.Errorf("%s with Age %q, want 17", g.state, g.header["Age"])
		}
	})
}

func TestVary(t *testing.T) {
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.answers(func(r *http.Request) (*http.Response, error) {
			return response(200, r.Header.Get("Accept-Encoding")+"|"+r.Header.Get("Accept"), "Cache-Control: max-age=60", "Vary: accept-encoding", "Vary: Accept"), nil
		})
		s.get("Accept-Encoding: gzip, br", "Accept: a").want(t, cache.StateMiss, 200, "gzip, br|a")
		synctest.Wait()
		s.get("Accept-Encoding: gzip, br", "Accept: a").want(t, cache.StateHit, 200, "gzip, br|a")
		s.get("Accept-Encoding: gzip", "Accept-Encoding: br", "Accept: a").want(t, cache.StateHit, 200, "gzip, br|a")
		s.get("Accept-Encoding: gzip,br", "Accept: a", "User-Agent: other").want(t, cache.StateHit, 200, "gzip, br|a")
		s.get("Accept: a").want(t, cache.StateMiss, 200, "|a")
		s.get("Accept-Encoding: gzip", "Accept: a").want(t, cache.StateMiss, 200, "gzip|a")
		synctest.Wait()
		s.get("Accept: a").want(t, cache.StateHit, 200, "|a")
		s.get("Accept-Encoding: gzip", "Accept: a").want(t, cache.StateHit, 200, "gzip|a")
		s.get("Accept-Encoding: gzip, br", "Accept: a").want(t, cache.StateHit, 200, "gzip, br|a")
	})
}

// A key has no more variants than are allowed, however many a client thinks of.
func TestVariantsAreBounded(t *testing.T) {
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.says(200, "x", "Cache-Control: max-age=600", "Vary: X")
		for i := range 100 {
			s.get("X: "+strings.Repeat("x", i)).want(t, cache.StateMiss, 200, "x")
			synctest.Wait()
		}
		if n, _, _ := s.cache.Len(); n > 32 {
			t.Errorf("%d variants are kept", n)
		}
		s.get("X: "+strings.Repeat("x", 99)).want(t, cache.StateHit, 200, "x")
	})
}

func TestMethods(t *testing.T) {
	const url = "http://a.example/x"
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.answers(func(r *http.Request) (*http.Response, error) {
			return response(200, r.Method, "Cache-Control: max-age=60"), nil
		})
		if g := s.ask("HEAD", url); g.state != cache.StateMiss || g.body != "" || g.header.Get("Content-Length") != "3" {
			t.Errorf("HEAD got %+v", g)
		}
		if m := s.lastAsked().Method; m != "GET" {
			t.Errorf("the origin was asked with %s, want GET", m)
		}
		synctest.Wait()
		s.get().want(t, cache.StateHit, 200, "GET")
		if g := s.ask("HEAD", url); g.state != cache.StateHit || g.body != "" || g.header.Get("Content-Length") != "3" {
			t.Errorf("HEAD got %+v", g)
		}
		s.ask("OPTIONS", url).want(t, "", 200, "OPTIONS")
		s.get().want(t, cache.StateHit, 200, "GET")
		s.query(cache.Query{HasBody: true}, "GET", url).want(t, cache.StateHit, 200, "GET") // as in nginx
	})
	inBubble(t, cache.Policy{KeepHead: true}, func(t *testing.T, s *site) {
		s.answers(func(r *http.Request) (*http.Response, error) {
			return response(200, r.Method, "Cache-Control: max-age=60"), nil
		})
		s.ask("HEAD", url)
		if m := s.lastAsked().Method; m != "HEAD" {
			t.Errorf("the origin was asked with %s, want HEAD", m)
		}
		synctest.Wait()
		s.get().want(t, cache.StateMiss, 200, "GET")
	})
	if _, err := cache.Compile(cache.Policy{Methods: []string{"GET", "POST"}}); err == nil {
		t.Error("answers to POST are kept")
	}
}

func TestUnsafeMethodsInvalidate(t *testing.T) {
	const url = "http://a.example/x"
	for _, test := range []struct {
		method string
		status int
		gone   bool
		off    bool
	}{
		{"POST", 200, true, false}, {"PUT", 204, true, false}, {"DELETE", 303, true, false}, {"PATCH", 200, true, false}, {"UNKNOWN", 200, true, false},
		{"POST", 500, false, false}, {"POST", 404, false, false}, {"OPTIONS", 200, false, false}, {"PROPFIND", 200, false, false},
		{"POST", 200, false, true}, {"DELETE", 204, false, true}, {"PURGE", 200, false, true},
	} {
		inBubble(t, cache.Policy{Invalidate: !test.off}, func(t *testing.T, s *site) {
			s.says(200, "old", "Cache-Control: max-age=60", "Vary: X")
			s.get("X: 1")
			s.get("X: 2")
			synctest.Wait()
			s.says(test.status, "")
			s.ask(test.method, url)
			s.says(200, "new", "Cache-Control: max-age=60")
			state, body := cache.StateHit, "old"
			if test.gone {
				state, body = cache.StateMiss, "new"
			}
			s.get("X: 1").want(t, state, 200, body)
		})
	}
}

// What is on its way in while its URI is changed, or purged, is not kept.
func TestInvalidatedOnItsWay(t *testing.T) {
	for name, change := range map[string]func(*site){
		"POST":        func(s *site) { s.ask("POST", "http://a.example/x") },
		"Purge":       func(s *site) { s.cache.Purge("http://a.example/x") },
		"PurgePrefix": func(s *site) { s.cache.PurgePrefix("http:") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, cache.Policy{Invalidate: true}, func(t *testing.T, s *site) {
				s.answers(func(r *http.Request) (*http.Response, error) {
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

func TestConditions(t *testing.T) {
	const modified = "Fri, 31 Dec 1999 00:00:00 GMT"
	for _, test := range []struct {
		fields string
		status int
		body   string
	}{
		{`If-None-Match: "v1"`, 304, ""},
		{`If-None-Match: W/"v1"`, 304, ""},
		{`If-None-Match: "v0", "v1"`, 304, ""},
		{`If-None-Match: *`, 304, ""},
		{`If-None-Match: "v2"`, 200, "0123456789"},
		{"If-Modified-Since: " + modified, 304, ""},
		{"If-Modified-Since: Thu, 30 Dec 1999 00:00:00 GMT", 200, "0123456789"},
		{`If-None-Match: "v2"|If-Modified-Since: ` + modified, 200, "0123456789"},
		{`If-Match: "v2"`, 412, ""},
		{`If-Match: "v1"`, 200, "0123456789"},
		{"If-Unmodified-Since: Thu, 30 Dec 1999 00:00:00 GMT", 412, ""},
		{"Range: bytes=2-4", 206, "234"},
		{"Range: bytes=-1", 206, "9"},
		{"Range: bytes=20-", 416, "invalid range: failed to overlap\n"},
		{`Range: bytes=2-4|If-Range: "v1"`, 206, "234"},
		{`Range: bytes=2-4|If-Range: "v2"`, 200, "0123456789"},
		{`Range: bytes=2-4|If-None-Match: "v1"`, 304, ""},
		{"Range: bytes=" + strings.Repeat("0-0,", 20) + "1-1", 200, "0123456789"},
	} {
		inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
			s.says(200, "0123456789", "Cache-Control: max-age=60", `Etag: "v1"`, "Last-Modified: "+modified, "Content-Type: text/plain")
			for _, state := range []cache.State{cache.StateMiss, cache.StateHit} {
				g := s.get(strings.Split(test.fields, "|")...)
				g.want(t, state, test.status, test.body)
				if g.status == 206 && g.header.Get("Content-Length") != "3" && g.header.Get("Content-Length") != "1" {
					t.Errorf("Content-Length %q", g.header.Get("Content-Length"))
				}
				if g.status == 412 && g.header.Get("Content-Length") != "" {
					t.Errorf("412 has Content-Length %q", g.header.Get("Content-Length"))
				}
				synctest.Wait()
			}
			if h := s.lastAsked().Header; len(h) > 0 {
				t.Errorf("the origin was asked with %v", h)
			}
			if s.asks() != 1 {
				t.Errorf("the origin was asked %d times", s.asks())
			}
		})
	}
}

func TestSeveralRanges(t *testing.T) {
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.says(200, "0123456789", "Cache-Control: max-age=60")
		s.get()
		synctest.Wait()
		g := s.get("Range: bytes=0-1,5-6")
		if g.status != 206 || !strings.Contains(g.body, "Content-Range: bytes 0-1/10\r\n") || !strings.Contains(g.body, "\r\n\r\n56\r\n") {
			t.Errorf("got %+v", g)
		}
	})
}

// Where the origin does not say how long the answer is, a condition waits for the end.
func TestConditionsOfUnknownLength(t *testing.T) {
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.answers(func(*http.Request) (*http.Response, error) {
			r := response(200, "0123456789", "Cache-Control: max-age=60", `Etag: "v1"`)
			r.ContentLength = -1
			return r, nil
		})
		s.get("Range: bytes=1-2").want(t, cache.StateMiss, 206, "12")
		s.get(`If-None-Match: "v1"`).want(t, cache.StateHit, 304, "")
	})
}

func TestRevalidation(t *testing.T) {
	inBubble(t, cache.Policy{Revalidate: true}, func(t *testing.T, s *site) {
		s.says(200, "body", "Cache-Control: max-age=10", `Etag: "v1"`, "Last-Modified: Fri, 31 Dec 1999 00:00:00 GMT", "X: old", "Content-Type: a/b")
		s.get().want(t, cache.StateMiss, 200, "body")
		time.Sleep(11 * time.Second)
		s.says(304, "", "Cache-Control: max-age=20", `Etag: W/"v1"`, "X: new", "Content-Type: c/d", "Content-Length: 77")
		g := s.get(`If-None-Match: "v0"`)
		g.want(t, cache.StateRevalidated, 200, "body")
		if h := s.lastAsked().Header; h.Get("If-None-Match") != `"v1"` || h.Get("If-Modified-Since") == "" {
			t.Errorf("asked with %v", h)
		}
		for range 2 {
			if g.header.Get("X") != "new" || g.header.Get("Content-Type") != "a/b" || g.header.Get("Content-Length") != "4" || g.header.Get("Etag") != `"v1"` {
				t.Errorf("header %v", g.header)
			}
			time.Sleep(9 * time.Second)
			g = s.get()
			g.want(t, cache.StateHit, 200, "body")
		}
		time.Sleep(9 * time.Second)
		s.says(200, "other", "Cache-Control: max-age=10", `Etag: "v2"`)
		s.get().want(t, cache.StateExpired, 200, "other")
		synctest.Wait()
		s.get().want(t, cache.StateHit, 200, "other")
	})
}

// A 304 that is about something else brings the whole answer.
func TestRevalidationOfAnother(t *testing.T) {
	inBubble(t, cache.Policy{Revalidate: true}, func(t *testing.T, s *site) {
		s.says(200, "body", "Cache-Control: max-age=10", `Etag: "v1"`)
		s.get()
		time.Sleep(11 * time.Second)
		s.answers(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("If-None-Match") != "" {
				return response(304, "", `Etag: "v2"`), nil
			}
			return response(200, "other", `Etag: "v2"`, "Cache-Control: max-age=10"), nil
		})
		s.get().want(t, cache.StateExpired, 200, "other")
		synctest.Wait()
		s.get().want(t, cache.StateHit, 200, "other")
	})
}

// A 304 may say that the answer is not to be kept any longer.
func TestRevalidationForbids(t *testing.T) {
	inBubble(t, cache.Policy{Revalidate: true, Stale: cache.Stale{Error: true}}, func(t *testing.T, s *site) {
		s.says(200, "body", "Cache-Control: max-age=10", `Etag: "v1"`)
		s.get()
		time.Sleep(11 * time.Second)
		s.says(304, "", "Cache-Control: no-store")
		s.get().want(t, cache.StateRevalidated, 200, "body")
		s.answers(func(*http.Request) (*http.Response, error) { return nil, errOrigin })
		if g := s.get(); !errors.Is(g.err, errOrigin) {
			t.Errorf("got %+v, want the origin's error", g)
		}
	})
}

var errOrigin = errors.New("the origin fails")

type kindOfError struct{ timeout, invalid bool }

func (e kindOfError) Error() string       { return "an error" }
func (e kindOfError) Timeout() bool       { return e.timeout }
func (e kindOfError) InvalidHeader() bool { return e.invalid }

func TestStale(t *testing.T) {
	fails := func(err error) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	status := func(n int) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return response(n, "error"), nil }
	}
	for _, test := range []struct {
		what    string
		stale   cache.Stale
		control string
		after   time.Duration
		origin  func(*http.Request) (*http.Response, error)
		does    bool
	}{
		{"an error, nothing said", cache.Stale{}, "", 11, fails(errOrigin), false},
		{"an error", cache.Stale{Error: true}, "", 11, fails(errOrigin), true},
		{"an error, must-revalidate", cache.Stale{Error: true}, ", must-revalidate", 11, fails(errOrigin), false},
		{"an error, proxy-revalidate", cache.Stale{Error: true}, ", proxy-revalidate", 11, fails(errOrigin), false},
		{"another error", cache.Stale{Timeout: true}, "", 11, fails(errOrigin), false},
		{"a timeout", cache.Stale{Timeout: true}, "", 11, fails(kindOfError{timeout: true}), true},
		{"a timeout is no error", cache.Stale{Error: true}, "", 11, fails(kindOfError{timeout: true}), false},
		{"an invalid header", cache.Stale{InvalidHeader: true}, "", 11, fails(kindOfError{invalid: true}), true},
		{"a status", cache.Stale{Statuses: []int{503}}, "", 11, status(503), true},
		{"another status", cache.Stale{Statuses: []int{503}}, "", 11, status(502), false},
		{"404", cache.Stale{Statuses: []int{404}}, "", 11, status(404), true},
		{"stale-if-error", cache.Stale{}, ", stale-if-error=10", 19, fails(errOrigin), true},
		{"stale-if-error of a status", cache.Stale{}, ", stale-if-error=10", 19, status(500), true},
		{"stale-if-error of no error", cache.Stale{}, ", stale-if-error=10", 19, status(404), false},
		{"stale-if-error is over", cache.Stale{}, ", stale-if-error=10", 21, fails(errOrigin), false},
	} {
		t.Run(test.what, func(t *testing.T) {
			inBubble(t, cache.Policy{Stale: test.stale}, func(t *testing.T, s *site) {
				s.says(200, "body", "Cache-Control: max-age=10"+test.control)
				s.get()
				time.Sleep(test.after * time.Second)
				s.answers(test.origin)
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

func TestUpdating(t *testing.T) {
	for control, policy := range map[string]cache.Policy{
		"max-age=10":                            {Stale: cache.Stale{Updating: true}},
		"max-age=10, stale-while-revalidate=30": {},
	} {
		inBubble(t, policy, func(t *testing.T, s *site) {
			s.says(200, "old", "Cache-Control: "+control)
			s.get()
			time.Sleep(11 * time.Second)
			s.answers(func(*http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return response(200, "new", "Cache-Control: "+control), nil
			})
			first := make(chan got, 1)
			go func() { first <- s.get() }()
			synctest.Wait()
			s.get().want(t, cache.StateUpdating, 200, "old")
			(<-first).want(t, cache.StateExpired, 200, "new")
			synctest.Wait()
			s.get().want(t, cache.StateHit, 200, "new")
			time.Sleep(41 * time.Second)
			if policy.Stale.Updating {
				return
			}
			go s.get() // beyond what the answer allows nobody gets it
			synctest.Wait()
			s.get().want(t, cache.StateExpired, 200, "new")
			synctest.Wait() // until the other one has its answer, too: then the cache may be closed
		})
	}
}

func TestBackground(t *testing.T) {
	inBubble(t, cache.Policy{Background: true}, func(t *testing.T, s *site) {
		const control = "Cache-Control: max-age=10, stale-while-revalidate=30"
		s.says(200, "old", control)
		s.get()
		time.Sleep(11 * time.Second)
		s.answers(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return response(200, "new", control), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		s.query(cache.Query{Context: ctx}, "GET", "http://a.example/x").want(t, cache.StateStale, 200, "old")
		cancel() // the client's end is not that of the update
		s.get().want(t, cache.StateUpdating, 200, "old")
		time.Sleep(2 * time.Second)
		s.get().want(t, cache.StateHit, 200, "new")
		if s.asks() != 2 {
			t.Errorf("the origin was asked %d times, want 2", s.asks())
		}
		time.Sleep(11 * time.Second)
		s.answers(func(*http.Request) (*http.Response, error) { panic("origin") })
		s.get().want(t, cache.StateStale, 200, "new")
		synctest.Wait()
		for _, want := range []string{"cache test: the origin panicked: origin\n", "cache_test.go"} { // and where it did
			if !strings.Contains(s.said.String(), want) {
				t.Errorf("the log says %q, want %q in it", s.said, want)
			}
		}
		before := s.said.String()
		s.answers(func(*http.Request) (*http.Response, error) { panic(http.ErrAbortHandler) })
		s.get().want(t, cache.StateStale, 200, "new")
		synctest.Wait()
		if now := s.said.String(); now != before {
			t.Errorf("the log says %q of what is meant", now[len(before):])
		}
		s.answers(func(*http.Request) (*http.Response, error) { return nil, errOrigin })
		s.get().want(t, cache.StateStale, 200, "new")
	})
}

// dripping is a body of as many bytes as there are seconds in which it comes.
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

// An update behind requests' backs takes what time it takes, and is made once.
func TestSlowUpdate(t *testing.T) {
	for _, body := range []bool{false, true} {
		inBubble(t, cache.Policy{Background: true, Stale: cache.Stale{Updating: true}}, func(t *testing.T, s *site) {
			const control = "Cache-Control: max-age=300"
			s.says(200, "old", control)
			s.get()
			time.Sleep(301 * time.Second)
			s.answers(func(r *http.Request) (*http.Response, error) {
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
			if s.asks() != 2 {
				t.Errorf("the origin was asked %d times, want 2", s.asks())
			}
			if g := s.get(); g.body == "old" || g.state != cache.StateHit {
				t.Errorf("got %s %q", g.state, g.body)
			}
			time.Sleep(2 * time.Minute) // until all updates have ended
		})
	}
}

func TestBypassAndNoStore(t *testing.T) {
	const url = "http://a.example/x"
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.says(200, "one", "Cache-Control: max-age=60")
		s.get()
		synctest.Wait()
		s.says(200, "two", "Cache-Control: max-age=60")
		s.query(cache.Query{Skip: true, NoStore: true}, "GET", url).want(t, cache.StateBypass, 200, "two")
		s.get().want(t, cache.StateHit, 200, "one")
		s.query(cache.Query{Skip: true}, "GET", url).want(t, cache.StateBypass, 200, "two")
		synctest.Wait()
		s.get().want(t, cache.StateHit, 200, "two")
		s.query(cache.Query{NoStore: true}, "GET", url+"2", "Range: bytes=0-0").want(t, cache.StateMiss, 200, "two")
		if s.lastAsked().Header.Get("Range") == "" {
			t.Error("the origin was not asked for the range, though nothing would be kept")
		}
		synctest.Wait()
		s.ask("GET", url+"2").want(t, cache.StateMiss, 200, "two")
	})
}

// An answer that is not to be kept changes nothing of what is kept, if the origin says that this holds, either.
func TestNoStoreRevalidates(t *testing.T) {
	inBubble(t, cache.Policy{Revalidate: true}, func(t *testing.T, s *site) {
		s.says(200, "body", "Cache-Control: max-age=10", `Etag: "v1"`)
		s.get()
		time.Sleep(11 * time.Second)
		s.says(304, "", "Cache-Control: max-age=10", "X-User: somebody")
		s.query(cache.Query{NoStore: true}, "GET", "http://a.example/x").want(t, cache.StateRevalidated, 200, "body")
		s.says(304, "", "Cache-Control: max-age=10")
		g := s.get()
		g.want(t, cache.StateRevalidated, 200, "body")
		if g.header.Get("X-User") != "" {
			t.Errorf("another client got %v", g.header)
		}
	})
}

// What the origin has replaced by an answer that cannot be kept does not go on being served while that is updated.
func TestReplacedByUnkept(t *testing.T) {
	for control, status := range map[string]int{"no-store": 200, "private": 200, "max-age=0": 200, "": 404} {
		for _, behind := range []bool{false, true} {
			inBubble(t, cache.Policy{Background: behind, Stale: cache.Stale{Updating: true}}, func(t *testing.T, s *site) {
				s.says(200, "old", "Cache-Control: max-age=10")
				s.get()
				time.Sleep(11 * time.Second)
				s.says(status, "new", "Cache-Control: "+control)
				s.get()
				synctest.Wait()
				s.get().want(t, cache.StateMiss, status, "new")
			})
		}
	}
}

// An answer may be what says that it is not to be kept. Updates are waited for then.
func TestRefuses(t *testing.T) {
	policy := cache.Policy{Background: true, Stale: cache.Stale{Updating: true}}
	inBubble(t, policy, func(t *testing.T, s *site) {
		q := cache.Query{Refuses: func(resp *http.Response) bool { return resp.Header.Get("X-Private") != "" }}
		ask := func() got { return s.query(q, "GET", "http://a.example/x") }
		s.says(200, "one", "Cache-Control: max-age=60", "X-Private: 1")
		ask().want(t, cache.StateMiss, 200, "one")
		synctest.Wait()
		ask().want(t, cache.StateMiss, 200, "one")
		s.says(200, "two", "Cache-Control: max-age=60")
		ask().want(t, cache.StateMiss, 200, "two")
		synctest.Wait()
		ask().want(t, cache.StateHit, 200, "two")
		time.Sleep(time.Minute)
		s.says(200, "three", "Cache-Control: max-age=60", "X-Private: 1")
		ask().want(t, cache.StateExpired, 200, "three")
		s.says(200, "four", "Cache-Control: max-age=60")
		ask().want(t, cache.StateExpired, 200, "four")
		synctest.Wait()
		ask().want(t, cache.StateHit, 200, "four")
	})
}

func TestMinUses(t *testing.T) {
	inBubble(t, cache.Policy{MinUses: 3}, func(t *testing.T, s *site) {
		s.says(200, "x", "Cache-Control: max-age=60")
		for _, state := range []cache.State{cache.StateMiss, cache.StateMiss, cache.StateMiss, cache.StateHit} {
			s.get().want(t, state, 200, "x")
			synctest.Wait()
		}
	})
}

func TestCacheStatus(t *testing.T) {
	inBubble(t, cache.Policy{Status: true, Revalidate: true, Stale: cache.Stale{Error: true}}, func(t *testing.T, s *site) {
		want := func(g got, values ...string) {
			t.Helper()
			if strings.Join(g.header["Cache-Status"], "|") != strings.Join(values, "|") {
				t.Errorf("Cache-Status %q, want %q", g.header["Cache-Status"], values)
			}
		}
		s.says(200, "x", "Cache-Control: max-age=60", `Etag: "1"`, "Cache-Status: inner; hit", "Vary: X")
		want(s.get(), "inner; hit, test; fwd=uri-miss; fwd-status=200; stored")
		time.Sleep(time.Second)
		want(s.get(), "inner; hit, test; hit; ttl=59")
		want(s.get("X: 1"), "inner; hit, test; fwd=vary-miss; fwd-status=200; stored")
		want(s.query(cache.Query{Skip: true, NoStore: true}, "GET", "http://a.example/x"), "inner; hit, test; fwd=bypass")
		time.Sleep(time.Minute)
		s.says(304, "")
		want(s.get(), "inner; hit, test; fwd=stale; fwd-status=304")
		time.Sleep(2 * time.Minute)
		s.answers(func(*http.Request) (*http.Response, error) { return nil, errOrigin })
		want(s.get(), "inner; hit, test; fwd=stale")
		s.says(200, "")
		want(s.ask("POST", "http://a.example/x"), "test; fwd=method")
	})
}

func TestPurge(t *testing.T) {
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.says(200, "x", "Cache-Control: max-age=60", "Vary: X")
		urls := []string{"http://a.example/a/1", "http://a.example/a/2", "http://a.example/b/1"}
		for _, url := range urls {
			s.ask("GET", url)
			s.ask("GET", url, "X: 1")
		}
		synctest.Wait()
		if n := s.cache.Purge("http://a.example/a/1"); n != 2 {
			t.Errorf("%d were purged, want 2", n)
		}
		if n := s.cache.PurgePrefix("http://a.example/a/"); n != 2 {
			t.Errorf("%d were purged, want 2", n)
		}
		s.ask("GET", urls[2]).want(t, cache.StateHit, 200, "x")
		s.ask("GET", urls[1]).want(t, cache.StateMiss, 200, "x")
		synctest.Wait()
		if n := s.cache.PurgePrefix(""); n != 3 {
			t.Errorf("%d were purged, want 3", n)
		}
		if n, memory, disk := s.cache.Len(); n != 0 || memory != 0 || disk != 0 {
			t.Errorf("%d answers are left, with %d and %d bytes", n, memory, disk)
		}
	})
}

func TestInactive(t *testing.T) {
	config := cache.Config{Inactive: time.Minute}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, config, cache.Policy{})
		defer s.cache.Close()
		s.says(200, "x", "Cache-Control: max-age=3600")
		s.get()
		for range 5 {
			time.Sleep(50 * time.Second)
			s.get().want(t, cache.StateHit, 200, "x")
		}
		time.Sleep(75 * time.Second)
		if n, memory, _ := s.cache.Len(); n != 0 || memory != 0 {
			t.Errorf("%d answers are left, with %d bytes", n, memory)
		}
	})
}

// big is longer than what a fill makes room for at once.
func big(n int) string { return string(bytes.Repeat([]byte("0123456789abcdef"), n/16)) }

// Memory is bounded, and what many ask for outlasts what was asked for once.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 4 << 20
		s := newSite(t, cache.Config{MemoryBytes: room}, cache.Policy{})
		defer s.cache.Close()
		s.says(200, big(16<<10), "Cache-Control: max-age=3600")
		for range 3 {
			s.ask("GET", "http://a.example/hot")
			time.Sleep(2 * time.Second)
		}
		for i := range 1000 {
			s.ask("GET", "http://a.example/"+strings.Repeat("x", i))
			synctest.Wait()
			if _, memory, _ := s.cache.Len(); memory > room {
				t.Fatalf("%d bytes in memory, want at most %d", memory, room)
			}
		}
		if g := s.ask("GET", "http://a.example/hot"); g.state != cache.StateHit {
			t.Errorf("what was asked for often is gone: %s", g.state)
		}
		if n, _, _ := s.cache.Len(); n < 150 {
			t.Errorf("%d answers are kept, want more", n)
		}
	})
}

// The name is told as a structured field: a token, or a string.
func TestName(t *testing.T) {
	for name, want := range map[string]string{"zone-1.x": "zone-1.x", "": `""`, "1x": `"1x"`, `a "b"\`: `"a \"b\"\\"`, "é\n": `"???"`} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, cache.Config{Name: name}, cache.Policy{Status: true})
			defer s.cache.Close()
			s.says(200, "x")
			if got := s.get().header.Get("Cache-Status"); got != want+"; fwd=uri-miss" {
				t.Errorf("%q is told as %s, want %s", name, got, want)
			}
		})
	}
}

// Fields of a connection are not kept.
func TestFieldsOfConnections(t *testing.T) {
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.says(200, "x", fresh, "Connection: close, x-one", "X-One: 1", "Keep-Alive: timeout=5", "Transfer-Encoding: chunked", "Trailer: X-Two", "X-Three: 3")
		s.get()
		synctest.Wait()
		g := s.get()
		g.want(t, cache.StateHit, 200, "x")
		for _, name := range []string{"Connection", "X-One", "Keep-Alive", "Transfer-Encoding", "Trailer"} {
			if g.header.Get(name) != "" {
				t.Errorf("%s was kept", name)
			}
		}
		if g.header.Get("X-Three") != "3" {
			t.Error("X-Three was not kept")
		}
	})
}

// slowEnd is a body whose end comes a second behind its last byte.
type slowEnd struct{ strings.Reader }

func (b *slowEnd) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil {
		time.Sleep(time.Second)
	}
	return n, err
}

// whole is a client that does something once it has so many bytes.
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

// Who has all of an answer finds it kept.
func TestWholeAnswerIsKept(t *testing.T) {
	inBubble(t, cache.Policy{}, func(t *testing.T, s *site) {
		s.answers(func(*http.Request) (*http.Response, error) {
			resp := response(200, "body", "Cache-Control: max-age=60", "Content-Length: 4")
			resp.Body = io.NopCloser(&slowEnd{*strings.NewReader("body")})
			return resp, nil
		})
		r := httptest.NewRequest(http.MethodGet, "http://a.example/x", nil)
		a, err := s.cache.Respond(cache.Query{Context: r.Context(), Method: r.Method, Header: r.Header, Rules: s.rules, Key: "http://a.example/x"}, visit{s, r})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		asked := false
		w := &whole{httptest.NewRecorder(), 4, func() {
			asked = true
			s.get().want(t, cache.StateHit, 200, "body")
		}}
		if err := a.Send(w, r); err != nil || !asked {
			t.Errorf("%v, asked again %v", err, asked)
		}
	})
}
