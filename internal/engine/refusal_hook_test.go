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

// lateHead is a head that does not arrive whole, and badHead one that is malformed.
const (
	lateHead = "GET /late HTT"
	badHead  = "bad\r\n\r\n"
)

// A hook that panics costs neither the process its life nor a client the responses that are due.
func TestRefusedHookPanics(t *testing.T) {
	for send, want := range map[string]int{badHead: 1, get + badHead: 2, lateHead: 0} {
		set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "good") })}
		someServers(t, set, func(s *engine.Server, set *http.Server) {
			s.Refused = func(engine.Refusal) { panic("hook's") }
			set.ReadHeaderTimeout = 200 * time.Millisecond
		}, func(s *site) {
			c := s.connect()
			io.WriteString(c, send)
			if got, err := io.ReadAll(c); strings.Count(string(got), "HTTP/1.1 ") != want || err != nil {
				s.Errorf("%q: got %q, %v", send, got, err)
			}
			if logged := s.logged.String(); !strings.Contains(logged, "hook's") {
				s.Errorf("%q: logged %q", send, logged)
			}
		}, "tcp", "net.Conn", "tls")
	}
}

// A hook that waits, for a log that nobody reads, holds up neither other clients nor the bounds of time.
func TestRefusedHookWaits(t *testing.T) {
	release := make(chan bool)
	var waiting atomic.Int32
	set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "good") })}
	someServers(t, set, func(s *engine.Server, set *http.Server) {
		waiting.Store(0)
		release = make(chan bool)
		s.Refused = func(engine.Refusal) { waiting.Add(1); <-release }
		set.ReadHeaderTimeout, set.IdleTimeout = 200*time.Millisecond, 200*time.Millisecond
	}, func(s *site) {
		defer close(release)
		const n = 20
		for i := range n {
			io.WriteString(s.connect(), []string{lateHead, badHead}[i%2])
		}
		for start := time.Now(); waiting.Load() < n; time.Sleep(time.Millisecond) {
			if time.Since(start) > time.Minute {
				s.Fatalf("%d of %d refused requests are reported", waiting.Load(), n)
			}
		}
		c := s.connect()
		io.WriteString(c, get)
		if got, err := io.ReadAll(c); !strings.HasSuffix(string(got), "good") || err != nil { // until IdleTimeout
			s.Errorf("got %q, %v", got, err)
		}
	}, "tcp", "net.Conn")
}

// What is kept of refused requests does not keep all that the clients have sent.
func TestRefusedKeepLittle(t *testing.T) {
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
