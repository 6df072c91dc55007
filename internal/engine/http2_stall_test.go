package engine_test

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/engine"
)

// stall is a client that occupies the server without an end.
type stall struct {
	begun int // handlers that begin
	send  func(r *rawHTTP2)
}

func http2Stalls() map[string]stall {
	const streams = 4
	each := func(r *rawHTTP2, method, path string, ends bool) {
		for i := range streams {
			r.open(uint32(2*i+1), method, path, ends)
		}
	}
	return map[string]stall{
		"zero window": {streams, func(r *rawHTTP2) {
			r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			each(r, http.MethodGet, "/write", true)
		}},
		"reads nothing": {streams, func(r *rawHTTP2) {
			r.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
			r.WriteWindowUpdate(0, 1<<30)
			each(r, http.MethodGet, "/write", true)
		}},
		"slow bodies": {streams, func(r *rawHTTP2) {
			each(r, http.MethodPost, "/upload", false)
			r.WriteData(1, false, make([]byte, 100))
			r.output.Truncate(r.output.Len() - 50)
		}},
		"slow head": {0, func(r *rawHTTP2) {
			r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 10000)})
			r.WriteContinuation(1, false, make([]byte, 10000))
			r.output.Truncate(r.output.Len() - 50)
		}},
	}
}

// Clients that stall hold bounded memory and delay no other client, over each kind of connection.
func TestHTTP2StalledClientsHoldLittleMemory(t *testing.T) {
	for name, stalled := range http2Stalls() {
		for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
			t.Run(name+" "+mode, func(t *testing.T) {
				var begun atomic.Int64
				s := newHTTP2Site(t, "tare", mode, &http.Server{Handler: http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						switch r.URL.Path {
						case "/upload":
							begun.Add(1)
							_, _ = io.Copy(io.Discard, r.Body)
						case "/write":
							begun.Add(1)
							for piece := make([]byte, 4<<10); ; {
								if _, err := w.Write(piece); err != nil {
									return
								}
							}
						}
						io.WriteString(w, "hello")
					})})
				all, together := hostileConns(0)
				for sent := 0; sent < all; sent += together {
					begun.Store(0)
					s.stall(together, stalled.send, func() bool {
						return begun.Load() == int64(together*stalled.begun)
					})
				}
			})
		}
	}
}

// stall opens n connections that send something and read nothing, until hasBegun returns true.
// Another client must receive responses then. The server must hold little memory.
func (s *http2Site) stall(n int, send func(*rawHTTP2), hasBegun func() bool) {
	s.Helper()
	before := liveHeap()
	r := newRawHTTP2(s.T, nil)
	send(r)
	content := r.output.Bytes()
	conns := make([]io.Closer, n)
	var clients sync.WaitGroup
	for i := range conns {
		clients.Go(func() {
			c, err := s.dial()
			if err != nil {
				s.Error(err)
				return
			}
			if conns[i] = c; err == nil {
				_, err = c.Write(content)
			}
			if err != nil {
				s.Error(err)
			}
		})
	}
	clients.Wait()
	ours := s.server.(*engine.Server)
	eventually(s.T, "all clients are connected", func() bool { _, open := ours.Connections(); return open >= int64(n) })
	eventually(s.T, "all handlers have begun", hasBegun)
	for range 20 {
		if got := s.get("/"); got != "hello" {
			s.Errorf("another client has received %q", got)
		}
	}
	if held, limit := liveHeap(), before+32<<20+uint64(n)*(1<<20); held > limit {
		s.Errorf("%d connections hold %d MB", n, (held-before)>>20)
	}
	for _, c := range conns {
		c.Close()
	}
	s.client.CloseIdleConnections()
	eventually(s.T, "all connections are closed", func() bool { _, open := ours.Connections(); return open == 0 })
}
