package front_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// addedTo serves a handler at /, with the bodies of two others before and after its responses.
func addedTo(t *testing.T, s conf.Settings, main, added http.HandlerFunc) *testClient {
	t.Helper()
	s.AddBefore, s.AddAfter = "/before", "/after"
	c := oneHost(app(s), conf.Location{Path: "/before", Internal: true, Proxy: &conf.Proxy{To: "added"}},
		conf.Location{Path: "/after", Internal: true, Proxy: &conf.Proxy{To: "added"}})
	return serveHandler(t, newFront(t, c, front.Bind("app", main), front.Bind("added", added)))
}

// If a handler of an added body panics, the client can tell that the response is incomplete.
func TestFailedAdditionEndsTheResponse(t *testing.T) {
	for _, fails := range []string{"/before", "/after"} {
		us := addedTo(t, conf.Settings{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "text")
			w.(http.Flusher).Flush()
		}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == fails {
				panic(http.ErrAbortHandler)
			}
		})
		if _, err := us.attempt("GET", "/", nil); err == nil {
			t.Errorf("%s has failed, and the response is complete", fails)
		}
	}
}

// An encoded body is not added, and nothing is added to one.
func TestEncodedBodiesAreNotAdded(t *testing.T) {
	us := addedTo(t, conf.Settings{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if coding := r.URL.Query().Get("coding"); coding != "" {
			w.Header().Set("Content-Encoding", coding)
		}
		_, _ = io.WriteString(w, "text")
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/before" {
			w.Header().Set("Content-Encoding", "br")
		}
		_, _ = io.WriteString(w, "added")
	})
	for path, want := range map[string]string{"/": "textadded", "/?coding=x": "text"} {
		if got := us.get(path); got.body != want {
			t.Errorf("%s: %q, want %q", path, got.body, want)
		}
	}
}

// A response that is still being stored may be added to itself.
func TestAdditionOfTheSameCachedResponse(t *testing.T) {
	to, _ := numbered(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") })
	c := cached(to, conf.ProxyCache{Policy: conf.CachePolicy{Lock: true}, Key: "one"}, conf.Cache{Name: "one"})
	c.Hosts[0].Locations[0].Settings.AddBefore, c.Hosts[0].Locations[0].Settings.AddAfter = "/x", "/x"
	us := serveHandler(t, newFront(t, c))
	for range 2 {
		if got := us.get("/x"); strings.Count(got.body, to) != 3 {
			t.Errorf("%d: %q", got.status, got.body)
		}
	}
}
