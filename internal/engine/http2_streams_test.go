package engine_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
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
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(body)
}

// A client that uploads receives a response that the handler sends without reading the body.
func TestHTTP2EarlyResponsesArrive(t *testing.T) {
	everyHTTP2Mode(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "no")
	}, func(s *http2Site) {
		data := make([]byte, 2<<20) // more than the window
		for _, isChunked := range []bool{false, true} {
			var uploads sync.WaitGroup
			for range 20 {
				uploads.Go(func() {
					var body io.Reader = bytes.NewReader(data)
					if isChunked {
						body = io.MultiReader(body)
					}
					response, err := s.client.Post(s.url, "text/plain", body)
					if err != nil {
						s.Error(err)
						return
					}
					defer response.Body.Close()
					text, err := io.ReadAll(response.Body)
					if response.StatusCode != http.StatusForbidden || string(text) != "no" || err != nil {
						s.Error(response.Status, string(text), err)
					}
				})
			}
			uploads.Wait()
		}
	})
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
				if err != nil {
					t.Fatal(err)
				}
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

// What a handler has flushed arrives while it runs.
func TestHTTP2FlushedOutputArrives(t *testing.T) {
	next := make(chan struct{})
	everyHTTP2Mode(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			io.WriteString(w, "event\n")
			w.(http.Flusher).Flush()
			<-next
		}
	}, func(s *http2Site) {
		response, err := s.client.Get(s.url)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		for range 3 {
			line := make([]byte, len("event\n"))
			if _, err := io.ReadFull(response.Body, line); err != nil {
				t.Fatal(err)
			}
			next <- struct{}{}
		}
	})
}

// The context of a request ends when the client cancels it, and when the connection ends. Other
// streams continue in the first case.
func TestHTTP2ContextEnds(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan error)
	everyHTTP2Mode(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			entered <- struct{}{}
			<-r.Context().Done()
			_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
			ended <- err
		}
	}, func(s *http2Site) {
		for _, how := range []string{"reset", "close"} {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/wait", nil)
			if err != nil {
				t.Fatal(err)
			}
			var client sync.WaitGroup
			client.Go(func() {
				if _, err := s.client.Do(r); err == nil {
					t.Error("a response")
				}
			})
			<-entered
			if how == "reset" {
				s.get("/")
				cancel()
			} else {
				s.server.Close()
			}
			if err := <-ended; err == nil {
				t.Errorf("%s: the handler could write on", how)
			}
			client.Wait()
			cancel()
		}
	})
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

// Shutdown waits for running requests, and the client learns of it.
func TestHTTP2ShutdownWaitsForRequests(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	everyHTTP2Mode(t, func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-release
		io.WriteString(w, "hello")
	}, func(s *http2Site) {
		got := make(chan string)
		go func() { got <- s.get("/") }()
		<-entered
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ours := s.server.(*engine.Server)
		if err := ours.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown did not wait: %v", err)
		}
		stopped := make(chan error)
		go func() { stopped <- ours.Shutdown(t.Context()) }()
		release <- struct{}{}
		if text := <-got; text != "hello" {
			t.Errorf("got %q", text)
		}
		start := time.Now()
		if err := <-stopped; err != nil || time.Since(start) > 30*time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(start))
		}
	})
}

// Many clients with many streams receive their own responses.
func TestHTTP2StreamsAreNotMixed(t *testing.T) {
	everyHTTP2Mode(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "7") {
			runtime.Gosched()
		}
		io.WriteString(w, r.URL.Path+string(body))
	}, func(s *http2Site) {
		var clients sync.WaitGroup
		for i := range 50 {
			clients.Go(func() {
				path, body := "/"+strings.Repeat("p", i), strings.Repeat("b", i*700)
				for range 20 {
					response, err := s.client.Post(s.url+path, "text/plain", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(response.Body)
					response.Body.Close()
					if string(got) != path+body || err != nil {
						t.Errorf("%d bytes, %v", len(got), err)
					}
				}
			})
		}
		clients.Wait()
	})
}
