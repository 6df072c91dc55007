package front_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// boundCases are handlers by the path that they serve.
func boundCases() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/nothing": func(http.ResponseWriter, *http.Request) {},
		"/short":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>short") },
		"/long": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 10_000 {
				fmt.Fprintln(w, "line", i)
			}
		},
		"/declared": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"], w.Header()["Content-Type"] = []string{"2"}, []string{"x/y"}
			fmt.Fprint(w, "hi")
		},
		"/none":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"/missing": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"/part": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "x.txt", time.Unix(1e9, 0), strings.NewReader("0123456789"))
		},
		"/body": func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			fmt.Fprint(w, r.Header["Content-Length"], r.ContentLength, string(b), err)
		},
	}
}

// A bound handler gives the same responses with a cache as when a server calls it.
func TestCachedBoundHandlerRespondsAsDirectOne(t *testing.T) {
	mux := http.NewServeMux()
	for path, f := range boundCases() {
		mux.HandleFunc(path, f)
	}
	c := cached("app", conf.ProxyCache{Policy: conf.CachePolicy{Valid: []conf.CacheValid{{For: time.Hour}}}},
		conf.Cache{Name: "one"})
	a, direct := serveHandler(t, newFront(t, c, front.Bind("app", mux))), serveHandler(t, mux)
	states := map[string]int{}
	for path := range boundCases() {
		for _, method := range []string{"GET", "GET", "HEAD", "POST"} {
			send := func(of *testClient) response {
				switch {
				case method == "POST":
					return of.do(method, path, strings.NewReader("sent"))
				case path == "/part":
					return of.do(method, path, nil, "Range", "bytes=2-4")
				}
				return of.do(method, path, nil)
			}
			got, want := send(a), send(direct)
			states[got.header.Get("X-Cache")]++
			if got.status != want.status || got.body != want.body {
				t.Errorf("%s %s: %d %.99q, want %d %.99q", method, path, got.status, got.body, want.status, want.body)
			}
			for _, name := range []string{"Content-Type", "Content-Range", "Content-Length"} {
				isStored := name == "Content-Length" && want.header[name] == nil // its length is known
				if got.header.Get(name) != want.header.Get(name) && !isStored {
					t.Errorf("%s %s: %s %q, want %q", method, path, name, got.header[name], want.header[name])
				}
			}
		}
	}
	n := len(boundCases())
	if states["MISS"] < n || states["HIT"] < n || states[""] != n {
		t.Errorf("states %v", states)
	}
}

// The trailer section of a response that is not stored arrives, and pieces arrive as they are
// flushed.
func TestCachedBoundHandlerStreams(t *testing.T) {
	next := make(chan bool)
	a := serveHandler(t, newFront(t, cached("app", conf.ProxyCache{}, conf.Cache{Name: "one"}),
		front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Trailer"] = []string{"X-Sum"}
			fmt.Fprint(w, "one")
			_ = http.NewResponseController(w).Flush()
			<-next
			fmt.Fprint(w, "two")
			w.Header()["X-Sum"], w.Header()["Trailer:X-Late"] = []string{"1"}, []string{"2"}
		}))))
	resp, err := a.client.Get("http://front.test/")
	must(t, err)
	defer resp.Body.Close()
	b := make([]byte, 3)
	_, err = io.ReadFull(resp.Body, b)
	must(t, err)
	close(next)
	rest, err := io.ReadAll(resp.Body)
	must(t, err)
	if string(b)+string(rest) != "onetwo" || resp.Trailer.Get("X-Sum") != "1" || resp.Trailer.Get("X-Late") != "2" {
		t.Errorf("%q %q %v", b, rest, resp.Trailer)
	}
}

// A panic of a cached handler is an error of the upstream, or ends the connection of a response that
// has begun. It is logged, and the response is not stored. So it is if the response is shorter than
// it declares.
func TestIncompleteResponsesOfBoundHandlersAreNotStored(t *testing.T) {
	var logged bytes.Buffer
	var fails atomic.Bool
	a := serveHandler(t, newFront(t, cached("app", conf.ProxyCache{}, conf.Cache{Name: "one"}),
		front.LogErrors(log.New(&logged, "", 0)),
		front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Cache-Control"] = []string{"max-age=600"}
			switch {
			case !fails.Load():
			case r.URL.Path == "/short":
				w.Header()["Content-Length"] = []string{"3"}
			case r.URL.Path == "/late":
				fmt.Fprint(w, strings.Repeat("x", 1<<20))
				panic("late")
			case r.URL.Path == "/early":
				panic("early")
			}
			fmt.Fprint(w, "ok")
		}))))
	for _, path := range []string{"/early", "/late", "/short"} {
		fails.Store(true)
		got, err := a.attempt("GET", path, nil)
		if path == "/early" && (err != nil || got.status != http.StatusBadGateway) || path != "/early" && err == nil {
			t.Errorf("%s: %v, error %v", path, got, err)
		}
		fails.Store(false)
		a.get(path).want(t, "MISS", 200, "ok")
	}
	for _, want := range []string{"panic in a bound handler: early", "panic in a bound handler: late"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%q is not logged", want)
		}
	}
}

// Close waits for a cached handler whose response has no body.
func TestCloseWaitsForCachedBoundHandler(t *testing.T) {
	var isOver atomic.Bool
	h := newFront(t, cached("app", conf.ProxyCache{}, conf.Cache{Name: "one"}),
		front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // the exchange needs nothing else
			isOver.Store(true)
		})))
	if got := serveHandler(t, h).get("/"); got.status != http.StatusNoContent {
		t.Error(got)
	}
	must(t, h.Close())
	if !isOver.Load() {
		t.Error("the handler runs")
	}
}

// The cache judges the fields of a bound handler as a client would receive them: no client gets
// what was another's, however the handler spells them.
func TestPrivateResponsesOfBoundHandlersAreNotShared(t *testing.T) {
	fields := map[string]http.Header{
		"/lower":   {"cache-control": {"private, no-store"}},
		"/newline": {"Cache-Control": {"private\n"}},
		"/vary":    {"vary": {"X-User"}},
		"/cookie":  {"set-cookie": {"sid=3"}},
	}
	valid := []conf.CacheValid{{For: time.Hour}}
	a := serveHandler(t, newFront(t, cached("app", conf.ProxyCache{Policy: conf.CachePolicy{Valid: valid}},
		conf.Cache{Name: "one"}), front.Bind("app", http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			maps.Copy(w.Header(), fields[r.URL.Path])
			fmt.Fprint(w, r.Header["X-User"])
		}))))
	for path := range fields {
		for _, user := range []string{"alice", "bob"} {
			if got := a.get(path, "X-User", user).body; got != "["+user+"]" {
				t.Errorf("%s: %s gets %s", path, user, got)
			}
		}
	}
}

// A stale response replaces the error of a bound handler that panics.
func TestStaleResponseReplacesPanic(t *testing.T) {
	var calls atomic.Int64
	pc := conf.ProxyCache{Policy: conf.CachePolicy{Stale: conf.CacheStale{Error: true},
		Valid: []conf.CacheValid{{For: time.Millisecond}}}}
	a := serveHandler(t, newFront(t, cached("app", pc, conf.Cache{Name: "one"}), front.Bind("app",
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) > 1 {
				panic("broken")
			}
			fmt.Fprint(w, "first")
		}))))
	a.get("/").want(t, "MISS", 200, "first")
	testkit.WaitFor(t, "a stale response", func() bool { return a.get("/").header.Get("X-Cache") == "STALE" })
	a.get("/").want(t, "STALE", 200, "first")
}

// The rules for fields apply to those that a bound handler has spelled in another way.
func TestRulesFindFieldsOfBoundHandlersInAnySpelling(t *testing.T) {
	c := parseConf(t, "", `location / { proxy_hide_header X-Secret; proxy_pass http://app; }
		location /moved { return 200 "moved"; }`, "app")
	a := serveHandler(t, newFront(t, c, front.Bind("app", http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			w.Header()["x-secret"] = []string{"s"}
			if r.URL.Path == "/go" {
				w.Header()["x-accel-redirect"] = []string{"/moved"}
			}
			fmt.Fprint(w, "own")
		}))))
	if got := a.get("/"); got.body != "own" || len(got.header["X-Secret"]) > 0 {
		t.Errorf("%q %v", got.body, got.header)
	}
	if got := a.get("/go"); got.body != "moved" {
		t.Errorf("redirected to %q", got.body)
	}
}
