package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// The timeouts of a server concern each stream, as with net/http: WriteTimeout resets the stream
// and ends its context while the handler runs, and ReadTimeout ends the reading of the body.
func TestHTTP2TimeoutsAreThoseOfNetHTTP(t *testing.T) {
	for _, maker := range []string{"net/http", "tare"} {
		for mode := range http2Modes {
			t.Run(maker+" "+mode, func(t *testing.T) {
				seen := make(chan string, 1)
				var entered atomic.Bool
				s := newHTTP2Site(t, maker, mode, &http.Server{ReadTimeout: 500 * time.Millisecond,
					WriteTimeout: time.Second, IdleTimeout: time.Minute,
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						entered.Store(true)
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
				testkit.Try(t, func() error { // the handshake has these timeouts, too
					entered.Store(false)
					if response, err := s.client.Get(s.url); err == nil {
						s.Errorf("a response: %s", response.Status)
					}
					if !entered.Load() {
						return errors.New("the handler has no request")
					}
					if got, want := <-seen, context.Canceled.Error(); got != want {
						return fmt.Errorf("the handler sees %q, want %q", got, want)
					}
					return nil
				})
				testkit.Try(t, func() error {
					entered.Store(false)
					body, end := io.Pipe()
					defer end.Close()
					if response, err := s.client.Post(s.url, "a/b", body); err == nil {
						response.Body.Close()
					}
					if !entered.Load() {
						return errors.New("the handler has no request with a body")
					}
					if got := <-seen; got != "true" {
						return errors.New("reading the body ended with another error")
					}
					return nil
				})
			})
		}
	}
}
