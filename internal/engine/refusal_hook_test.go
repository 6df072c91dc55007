package engine_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// lateHead is an incomplete head, and badHead a malformed one.
const (
	lateHead = "GET /late HTT"
	badHead  = "bad\r\n\r\n"
)

// A hook that panics neither ends the process nor costs a client its due responses.
func TestRefusedHookPanicAffectsNoResponse(t *testing.T) {
	for send, want := range map[string]int{badHead: 1, get + badHead: 2} {
		set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "good")
		})}
		someServers(t, set, func(s *engine.Server, _ *http.Server) {
			s.Refused = func(engine.Refusal) { panic("hook's") }
		}, func(s *site) {
			c := s.connect()
			io.WriteString(c, send)
			if got, err := io.ReadAll(c); strings.Count(string(got), "HTTP/1.1 ") != want || err != nil {
				s.Errorf("%q: got %q, %v", send, got, err)
			}
			if logged := s.logged.String(); !strings.Contains(logged, "hook's") {
				s.Errorf("%q: logged %q", send, logged)
			}
		}, "tcp", "net.Conn", "tls", "ServeTLS")
	}
}

// waitingHook is a hook that waits until release is closed.
type waitingHook struct {
	waiting atomic.Int32
	release chan bool
}

func (h *waitingHook) apply(s *engine.Server, set *http.Server) {
	h.waiting.Store(0)
	h.release = make(chan bool)
	release := h.release
	s.Refused = func(engine.Refusal) {
		h.waiting.Add(1)
		<-release
		panic("hook's")
	}
	set.ReadHeaderTimeout, set.IdleTimeout = 100*time.Millisecond, 100*time.Millisecond
}

// A hook that blocks, for example on a log that nobody reads, delays neither other clients nor
// timeouts. Neither does one that panics for a late head.
func TestBlockedRefusedHookBlocksNoClient(t *testing.T) {
	var hook waitingHook
	set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "good")
	})}
	someServers(t, set, hook.apply, func(s *site) {
		defer func() { close(hook.release) }()
		const n = 20
		for _, send := range []string{lateHead, badHead} {
			before := hook.waiting.Load()
			for start := time.Now(); hook.waiting.Load() < before+n; time.Sleep(time.Millisecond) {
				if time.Since(start) > 30*time.Second {
					s.Fatalf("%q: %d of %d refused requests are reported", send, hook.waiting.Load()-before, n)
				}
				io.WriteString(s.connect(), send) // on a busy machine it may be late
			}
		}
		for start := time.Now(); ; {
			c := s.connect()
			io.WriteString(c, get)
			got, err := io.ReadAll(c) // until IdleTimeout
			if strings.HasSuffix(string(got), "good") && err == nil {
				return
			}
			if time.Since(start) > 30*time.Second {
				s.Fatalf("got %q, %v", got, err)
			}
		}
	}, "tcp", "net.Conn")
}

// A Refusal that a program keeps does not keep all that the client has sent.
func TestKeptRefusalsHoldLittleMemory(t *testing.T) {
	const n, size = 200, 256 << 10
	var kept []string
	before := heapInUse()
	done := make(chan bool, 1)
	set := &http.Server{Handler: http.NotFoundHandler()}
	someServers(t, set, func(s *engine.Server, _ *http.Server) {
		s.Refused = func(r engine.Refusal) {
			kept = append(kept, r.Request.Host, r.Request.UserAgent(), r.Request.Method)
			done <- true
		}
	}, func(s *site) {
		large := "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: ua\r\nX: " + strings.Repeat("x", size) + "\r\nbad\r\n\r\n"
		for range n {
			c := s.connect()
			io.WriteString(c, large)
			<-done
			c.Close()
		}
		if after := heapInUse(); after > before+n*size/2 { // there may be a reserve
			s.Errorf("%d bytes in use, %d before", after, before)
		}
		runtime.KeepAlive(kept)
	}, "tcp")
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
