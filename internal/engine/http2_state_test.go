package engine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// The ConnState hook is called as by net/http.
func TestHTTP2ConnStatesAreThoseOfNetHTTP(t *testing.T) {
	for _, mode := range []string{"h2c-goroutine", "h2-tls-goroutine", "h2c-shard", "h2-tls-shard"} {
		t.Run(mode, func(t *testing.T) {
			want := http2States(t, "net/http", mode)
			if got := http2States(t, "hooks on loops", mode); got != want {
				t.Errorf("states %s, want %s", got, want)
			}
		})
	}
}

func http2States(t *testing.T, maker, mode string) string {
	var mu sync.Mutex
	states, changed := "", sync.NewCond(&mu)
	s := newHTTP2Site(t, maker, mode, &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			states += fmt.Sprint(state, " ")
			changed.Broadcast()
		},
	})
	await := func(suffix string) string {
		mu.Lock()
		defer mu.Unlock()
		for !strings.HasSuffix(states, suffix) {
			changed.Wait()
		}
		return states
	}
	s.get("/")
	await("active idle ") // the client may have the response before
	s.client.CloseIdleConnections()
	return await("closed ")
}
