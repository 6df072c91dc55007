package engine_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// The ConnState hook is called as by net/http.
func TestHTTP2ConnStatesAreThoseOfNetHTTP(t *testing.T) {
	for _, mode := range []string{"h2c-goroutine", "h2-tls-goroutine", "h2c-shard", "h2-tls-shard"} {
		t.Run(mode, func(t *testing.T) {
			want := http2States(t, "net/http", mode)
			if got := http2States(t, "tare", mode); got != want {
				t.Errorf("states %s, want %s", got, want)
			}
		})
	}
}

func http2States(t *testing.T, maker, mode string) string {
	var mu sync.Mutex
	states := ""
	s := newHTTP2Site(t, maker, mode, &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			states += fmt.Sprint(state, " ")
		},
	})
	await := func(suffix string) {
		testkit.WaitFor(t, suffix, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.HasSuffix(states, suffix)
		})
	}
	s.get("/")
	await("active idle ") // the client may have the response before
	s.client.CloseIdleConnections()
	await("closed ")
	return states
}

// A hook may wait for Shutdown when its connection is closed. When an HTTP/2 connection is idle, it
// may not, as with net/http.
func TestHTTP2HookMayWaitForShutdown(t *testing.T) {
	for _, maker := range []string{"net/http", "tare"} {
		for mode := range http2Modes {
			t.Run(maker+"/"+mode, func(t *testing.T) {
				t.Parallel()
				site, ended := make(chan *http2Site, 1), make(chan error, 1)
				s := newHTTP2Site(t, maker, mode, &http.Server{ConnState: func(_ net.Conn, state http.ConnState) {
					if state == http.StateClosed {
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						defer cancel()
						ended <- (<-site).server.(interface{ Shutdown(context.Context) error }).Shutdown(ctx)
					}
				}})
				site <- s
				s.get("/")
				s.client.CloseIdleConnections()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		}
	}
}
