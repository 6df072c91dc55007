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

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/byterange"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/testkit"
)

// site is an origin behind a cache.
type site struct {
	t     *testing.T
	cache *cache.Cache
	rules *cache.Rules
	log   *testkit.Log

	mu       sync.Mutex
	response origin
	received []*http.Request // requests to the origin
}

// origin makes the response to a request.
type origin = func(*http.Request) (*http.Response, error)

func newSite(t *testing.T, config conf.Cache, policy conf.CachePolicy) *site {
	t.Helper()
	text := new(testkit.Log)
	c := testkit.Value(cache.New(config, log.New(text, "", 0)))(t)
	rules := testkit.Value(cache.Compile(policy, true))(t)
	return &site{t: t, cache: c, rules: rules, log: text}
}

// responds sets the origin's response: a status, a body and fields.
func (s *site) responds(status int, body string, fields ...string) {
	s.respondBy(func(*http.Request) (*http.Response, error) { return response(status, body, fields...), nil })
}

// stores is responds, and the response is stored.
func (s *site) stores(body string, fields ...string) {
	s.t.Helper()
	s.responds(200, body, fields...)
	s.get().want(s.t, cache.StateMiss, 200, body)
}

// becomesStale is stores for a response that is fresh for 10 seconds, which have passed.
func (s *site) becomesStale(body, control string, fields ...string) {
	s.t.Helper()
	s.stores(body, append(fields, "Cache-Control: max-age=10"+control)...)
	time.Sleep(11 * time.Second)
}

// fails makes the origin return an error.
func (s *site) fails(err error) {
	s.respondBy(func(*http.Request) (*http.Response, error) { return nil, err })
}

func (s *site) respondBy(f origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.response = f
}

func (s *site) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.received)
}

// wantRequests fails unless the origin has received n requests.
func (s *site) wantRequests(n int) {
	s.t.Helper()
	testkit.Equal(s.t, s.requests(), n, "requests to the origin")
}

// wantEmpty fails if the cache has anything.
func (s *site) wantEmpty() {
	s.t.Helper()
	n, memory, disk := s.cache.Len()
	testkit.Equal(s.t, []int64{n, memory, disk}, []int64{0, 0, 0}, "responses, bytes in memory and on disk")
}

func (s *site) lastRequest() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received[len(s.received)-1]
}

func response(status int, body string, fields ...string) *http.Response {
	header := headerOf(fields...)
	return &http.Response{
		StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}

// headerOf returns a header with fields "Name: value".
func headerOf(fields ...string) http.Header {
	header := make(http.Header)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		header.Add(name, value)
	}
	return header
}

// visit is one request, which the origin may receive.
type visit struct {
	site *site
	r    *http.Request
	sent http.Header // once the request was prepared
}

func (v *visit) Request(request cache.OriginRequest) cache.Fetch {
	r := v.r.Clone(context.Background())
	r.Method = request.Method
	request.Apply(r.Header)
	v.sent = r.Header
	return func(ctx context.Context) (*http.Response, error) {
		v.site.mu.Lock()
		v.site.received = append(v.site.received, r)
		respond := v.site.response
		v.site.mu.Unlock()
		return respond(r.WithContext(ctx))
	}
}

func (v *visit) Field(name string) []string {
	if v.sent != nil {
		return fieldOf(v.sent, v.r.Host, name)
	}
	return fieldOf(v.r.Header, v.r.Host, name)
}

// fieldOf returns a field of a request to the origin for the whole response.
func fieldOf(header http.Header, host, name string) []string {
	switch {
	case name == "Host":
		return []string{host}
	case cache.IsConditional(name):
		return nil
	}
	return header[name]
}

// got is the response that a client received.
type got struct {
	status int
	header http.Header
	body   string
	state  cache.State
	err    error
}

func (s *site) get(fields ...string) got {
	return s.request(http.MethodGet, "http://a.example/x", fields...)
}

func (s *site) request(method, url string, fields ...string) got {
	return s.query(cache.Query{}, method, url, fields...)
}

func (s *site) query(q cache.Query, method, url string, fields ...string) got {
	a, r, err := s.find(q, method, url, fields...)
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
		err = a.Send(w, r, byterange.Selector{})
		a.Close()
		if unmet, ok := errors.AsType[cache.Unmet](err); ok {
			w.WriteHeader(int(unmet))
			err = nil
		}
	}
	res := w.Result()
	body, _ := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(body), a.State, err}
}

// find begins a request, whose response the caller sends.
func (s *site) find(q cache.Query, method, url string, fields ...string) (*cache.Response, *http.Request, error) {
	r := httptest.NewRequest(method, url, nil)
	if q.Context != nil {
		r = r.WithContext(q.Context)
	}
	r.Header = headerOf(fields...)
	q.Context, q.Method, q.Header, q.Rules, q.Key = r.Context(), method, r.Header, s.rules, url
	q.Origin = &visit{site: s, r: r}
	a, err := s.cache.Find(q)
	return a, r, err
}

// want fails unless the client received such a response. It returns when the cache has stored what
// it stores.
func (g got) want(t *testing.T, state cache.State, status int, body string) {
	t.Helper()
	if g.err != nil || g.state != state || g.status != status || g.body != body {
		t.Errorf("got %s %d %.50q, %v; want %s %d %.50q", g.state, g.status, g.body, g.err, state, status, body)
	}
	synctest.Wait()
}

// inBubble runs a test with a clock of its own, in memory and on disk.
func inBubble(t *testing.T, policy conf.CachePolicy, f func(t *testing.T, s *site)) {
	t.Helper()
	for name, config := range map[string]func() conf.Cache{
		"memory": func() conf.Cache { return conf.Cache{Name: "test"} },
		"disk":   func() conf.Cache { return conf.Cache{Name: "test", Dir: t.TempDir(), Levels: []int{1, 2}} },
		"files":  func() conf.Cache { return conf.Cache{Name: "test", Dir: t.TempDir()} },
	} {
		t.Run(name, func(t *testing.T) {
			inCache(t, config(), policy, func(t *testing.T, s *site) {
				if name == "files" {
					s.cache.NothingInMemory()
				}
				f(t, s)
			})
		})
	}
}

// inCache runs a test with a clock of its own and one cache.
func inCache(t *testing.T, config conf.Cache, policy conf.CachePolicy, f func(t *testing.T, s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, config, policy)
		defer s.cache.Close()
		synctest.Wait() // the directory has been read
		f(t, s)
	})
}

// big returns a body that is longer than the first buffer of a fill.
func big(n int) string { return string(bytes.Repeat([]byte("0123456789abcdef"), n/16)) }
