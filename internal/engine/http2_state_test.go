package engine_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

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
