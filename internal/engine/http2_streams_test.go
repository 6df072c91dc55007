package engine_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// everyHTTP2Mode runs a test over every kind of connection. On shards, all handlers run on the loop
// first: what blocks there must be moved off it.
func everyHTTP2Mode(t *testing.T, handler http.HandlerFunc, test func(*http2Site)) {
	for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
		t.Run(mode, func(t *testing.T) {
			s := newHTTP2Site(t, "on loop", mode, &http.Server{Handler: handler})
			test(s)
		})
	}
}

func (s *http2Site) get(path string) string {
	s.Helper()
	response, err := s.client.Get(s.url + path)
	testkit.Must(s, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	testkit.Must(s, err)
	return string(body)
}

// A handler that blocks holds up no other stream of its connection, also if its loop expected it to
// be quick.
func TestHTTP2BlockedHandlerHoldsUpNoStream(t *testing.T) {
	for _, blocks := range []string{"/sleep", "/body", "/output"} {
		t.Run(blocks, func(t *testing.T) {
			entered, release := make(chan struct{}, 1), make(chan struct{})
			everyHTTP2Mode(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/sleep":
					entered <- struct{}{}
					<-release
				case "/body":
					entered <- struct{}{}
					io.Copy(io.Discard, r.Body)
				case "/output":
					entered <- struct{}{}
					w.Write(make([]byte, 10<<20)) // more than the client's window
				}
				io.WriteString(w, r.URL.Path)
			}, func(s *http2Site) {
				body, end := io.Pipe()
				done := make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+blocks, body)
				testkit.Must(t, err)
				go func() {
					defer close(done)
					if response, err := s.client.Do(r); err == nil {
						if blocks == "/output" {
							<-release
						}
						io.Copy(io.Discard, response.Body)
						response.Body.Close()
					}
				}()
				<-entered
				for range 20 {
					if got := s.get("/quick"); got != "/quick" {
						t.Errorf("got %q", got)
					}
				}
				end.Close()
				if blocks != "/body" {
					release <- struct{}{}
				}
				<-done
			})
		})
	}
}

// A handler that ends its goroutine ends its stream only.
func TestHTTP2GoexitEndsStream(t *testing.T) {
	everyHTTP2Mode(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/exit" {
			runtime.Goexit()
		}
		io.WriteString(w, "hello")
	}, func(s *http2Site) {
		for range 3 {
			if _, err := s.client.Get(s.url + "/exit"); err == nil {
				t.Error("a response")
			}
			if got := s.get("/"); got != "hello" {
				t.Errorf("got %q", got)
			}
		}
	})
}
