package engine_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Fields about the connection, or that the web server would interpret, are not sent. Neither are
// interim responses.
func TestFCGIConnectionFieldsAreDropped(t *testing.T) {
	everyFCGIMode(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		if _, ok := w.(http.Hijacker); ok {
			t.Error("there is no connection to hijack")
		}
		for _, name := range []string{"Connection", "Status", "Transfer-Encoding", "Trailer", "Upgrade", "Keep-Alive",
			http.TrailerPrefix + "Sum"} {
			w.Header().Set(name, "666 close")
		}
		w.Header().Set("X-Mine", "kept\r\nStatus: 666 injected")
		w.WriteHeader(http.StatusContinue)
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "hello")
		w.Header().Set("Sum", "late")
	}), func(s *fcgiSite) {
		p := s.peer()
		for range 2 { // the connection is kept, whatever the handler has set
			a := p.roundTrip(aGET("/"))
			a.header.Del("Date")
			want := "map[Content-Type:[text/plain; charset=utf-8] Status:[404 Not Found] X-Mine:[kept  Status: " +
				"666 injected]]"
			if got := fmt.Sprint(a.header); got != want || a.body != "hello" {
				s.Errorf("got %s %q\nwant %s", got, a.body, want)
			}
		}
	})
}

// stderrOf returns a request's error stream.
func stderrOf(w http.ResponseWriter) io.Writer {
	return w.(interface{ Stderr() io.Writer }).Stderr()
}

// What a handler writes to the error stream arrives there at any time, and never in the body.
func TestFCGIStderrIsSeparateFromBody(t *testing.T) {
	large := strings.Repeat("large ", 30_000)
	var kept http.ResponseWriter
	var mu sync.Mutex
	everyFCGIMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		errs := stderrOf(w)
		switch r.URL.Path {
		case "/between":
			io.WriteString(errs, "before,")
			io.WriteString(w, "one ")
			io.WriteString(errs, "between,")
			w.(http.Flusher).Flush()
			io.WriteString(errs, "flushed,")
			io.WriteString(w, "two")
			io.WriteString(errs, "after")
		case "/alone":
			io.WriteString(errs, "alone")
		case "/large":
			n, err := io.WriteString(errs, large)
			fmt.Fprint(w, n, err)
		case "/many":
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 500 {
						io.WriteString(errs, "x")
						io.WriteString(w, "y")
					}
				})
			}
			wg.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		kept = w
	}), func(s *fcgiSite) {
		for _, want := range []struct{ method, path, body, stderr string }{
			{"GET", "/between", "one two", "before,between,flushed,after"},
			{"HEAD", "/between", "", "before,between,flushed,after"},
			{"GET", "/alone", "", "alone"},
			{"GET", "/large", fmt.Sprint(len(large), " <nil>"), large},
			{"GET", "/many", strings.Repeat("y", 2000), strings.Repeat("x", 2000)},
			{"GET", "/none", "", ""},
		} {
			p := s.peer()
			a := p.roundTrip(fcgiRequest{method: want.method, uri: want.path}.String())
			if a.body != want.body || string(a.stderr) != want.stderr {
				s.Errorf("%s %s: got %q and %q", want.method, want.path, shorten([]byte(a.body)), shorten(a.stderr))
			}
			mu.Lock()
			if n, err := io.WriteString(stderrOf(kept), "late"); n != 0 || err == nil {
				s.Errorf("wrote %d after the handler returned, %v", n, err)
			}
			mu.Unlock()
			if a := p.roundTrip(aGET("/none")); len(a.stderr) != 0 || a.body != "" {
				s.Errorf("then %v", a)
			}
			p.Close()
		}
	})
}

// An aborted handler ends its connection and affects nothing else. Earlier responses are not lost.
func TestFCGIAbortedHandlerEndsOnlyItsConnection(t *testing.T) {
	variants := map[string]func(http.ResponseWriter, *http.Request){
		"panic":  func(http.ResponseWriter, *http.Request) { panic("ouch") },
		"abort":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"Goexit": func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
		"nil map": func(http.ResponseWriter, *http.Request) {
			var m map[int]int
			m[0]++ //nolint:staticcheck // the panic under test
		},
		"panic, written": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x"); panic("ouch") },
		"panic, flushed": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); panic("ouch") },
		"panic, flushed head": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(stderrOf(w), "x")
			panic("ouch")
		},
		"abort, read": func(_ http.ResponseWriter, r *http.Request) {
			io.ReadFull(r.Body, make([]byte, 2))
			panic(http.ErrAbortHandler)
		},
	}
	pick := handle(func(w http.ResponseWriter, r *http.Request) {
		if bad, ok := variants[r.Header.Get("X-Pick")]; ok {
			bad(w, r)
		}
		io.WriteString(w, r.URL.Path)
	})
	everyFCGIMode(t, pick, func(s *fcgiSite) {
		other := s.peer()
		other.roundTrip(aGET("/other"))
		for name := range variants {
			for _, rest := range []string{
				rec(stdinStream, 1, ""), inRecords(stdinStream, 1, 9, "12345"), rec(stdinStream, 1, "1234"),
				rec(stdinStream, 1, "1") + question + inRecords(stdinStream, 1, 9, "2345"),
			} {
				p := s.peer()
				p.send(aGET("/before") + fcgiRequest{method: "POST", params: []string{"HTTP_X_PICK", name}}.head() +
					rest)
				if a, err := p.tryReadResponse(); err != nil || a.body != "/before" {
					s.Errorf("before %s: %v, %v", name, a, err)
				}
				if a, err := p.tryReadResponse(); err == nil {
					s.Errorf("%s: %v", name, a)
				}
				p.Close()
			}
			if a := other.roundTrip(aGET("/after")); a.body != "/after" || len(other.management) > 0 {
				s.Errorf("after %s: %v, and %q", name, a, other.management)
			}
		}
		if text := s.logged.String(); !strings.Contains(text, "panic serving") || !strings.Contains(text, "ouch") ||
			strings.Contains(text, http.ErrAbortHandler.Error()) {
			s.Errorf("logged %.300s", text)
		}
	})
}
