package engine_test

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
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
// The memory is measured in the slow form.
func TestHTTP2StalledClientsHoldLittleMemory(t *testing.T) {
	for name, stalled := range http2Stalls() {
		for _, mode := range slices.Sorted(maps.Keys(http2Modes)) {
			t.Run(name+" "+mode, func(t *testing.T) {
				s, n := newTarget(t, "tare", mode), hostileConns(0)
				s.stall(n, stalled)
				if testkit.Slow() {
					s.wantMemory(n, stallMemory)
				}
			})
		}
	}
}

// stallMemory is how much memory a connection that stalls may take: that of its handlers, which are
// goroutines with buffers of their own, and what they have written.
const stallMemory = 512 << 10

// stall opens n connections that send something and read nothing. Another client must receive
// responses then.
func (s *targetSite) stall(n int, how stall) {
	s.Helper()
	r := newRawHTTP2(s.T, nil)
	how.send(r)
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
	testkit.WaitFor(s.T, "all clients to connect", func() bool { return s.state().open > int64(n) })
	testkit.WaitFor(s.T, "all handlers to begin", func() bool { return s.state().begun == int64(n*how.begun) })
	for range 20 {
		if got := s.get("/"); got != "hello" {
			s.Errorf("another client has received %q", got)
		}
	}
	for _, c := range conns {
		c.Close()
	}
	testkit.WaitFor(s.T, "all connections to close", func() bool { return s.state().open == 1 })
}
