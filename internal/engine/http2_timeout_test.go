package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// The timeouts of a server concern each stream, as with net/http: WriteTimeout resets the stream
// and ends its context while the handler runs, and ReadTimeout ends the reading of the body.
func TestHTTP2TimeoutsAreThoseOfNetHTTP(t *testing.T) {
	for _, maker := range []string{"net/http", "tare"} {
		for mode := range http2Modes {
			t.Run(maker+" "+mode, func(t *testing.T) {
				seen := make(chan string, 1)
				s := newHTTP2Site(t, maker, mode, &http.Server{ReadTimeout: 500 * time.Millisecond,
					WriteTimeout: time.Second, IdleTimeout: time.Minute,
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.Method == http.MethodPost {
							_, err := io.ReadAll(r.Body)
							seen <- fmt.Sprint(errors.Is(err, os.ErrDeadlineExceeded))
							return
						}
						select {
						case <-r.Context().Done():
							io.WriteString(w, "late")
							seen <- fmt.Sprint(r.Context().Err())
						case <-time.After(10 * time.Second):
							seen <- "the context goes on"
						}
					})})
				if response, err := s.client.Get(s.url); err == nil {
					s.Errorf("a response: %s", response.Status)
				}
				if got, want := <-seen, context.Canceled.Error(); got != want {
					t.Errorf("the handler sees %q, want %q", got, want)
				}
				body, end := io.Pipe()
				defer end.Close()
				if response, err := s.client.Post(s.url, "a/b", body); err == nil {
					response.Body.Close()
				}
				if got := <-seen; got != "true" {
					t.Error("reading the body ended with another error")
				}
			})
		}
	}
}

// A connection that is closed because it was idle ends with GOAWAY, after which the client need not
// fear that a request was processed.
func TestHTTP2IdleConnectionEndsWithGoAway(t *testing.T) {
	for maker := range makers {
		for mode := range http2Modes {
			t.Run(maker+" "+mode, func(t *testing.T) {
				t.Parallel()
				s := newHTTP2Site(t, maker, mode, &http.Server{IdleTimeout: 50 * time.Millisecond,
					Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
				c := s.raw()
				c.open(1, http.MethodGet, "/", true)
				c.send()
				for {
					f, err := c.ReadFrame()
					if err != nil {
						t.Fatalf("the connection has ended without GOAWAY: %v", err)
					}
					if end, ok := f.(*http2.GoAwayFrame); ok {
						if end.ErrCode != http2.ErrCodeNo || end.LastStreamID != 1 {
							t.Errorf("%v", end)
						}
						return
					}
				}
			})
		}
	}
}
