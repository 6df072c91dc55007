package engine_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// targetHandler is the handler of a server that hostile clients attack. It reports its state to any
// client.
type targetHandler struct {
	server               atomic.Pointer[engine.Server] // nil for net/http's
	calmed, other, begun atomic.Int64
}

// targetState is what a target reports.
type targetState struct {
	calmed int64 // connections that have ended with ENHANCE_YOUR_CALM
	other  int64 // connections that have ended with other errors
	begun  int64 // handlers that have begun to receive or to send a body
	open   int64 // connections
}

func (g *targetHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/state":
		open := int64(0)
		if s := g.server.Load(); s != nil {
			_, open = s.Connections()
		}
		fmt.Fprintln(w, g.calmed.Load(), g.other.Load(), g.begun.Load(), open)
		return
	case "/upload":
		g.begun.Add(1)
	case "/write":
		g.begun.Add(1)
		for piece := make([]byte, 4<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
	_, _ = io.Copy(io.Discard, r.Body)
	io.WriteString(w, "hello")
}

// countError counts how connections end.
func (g *targetHandler) countError(what string) {
	switch {
	case what == "conn_ENHANCE_YOUR_CALM":
		g.calmed.Add(1)
	case strings.HasPrefix(what, "conn_"):
		g.other.Add(1)
	}
}

// targetSite is a client of a target.
type targetSite struct {
	*http2Site
	address string
	pid     int
	before  int // its memory before the attack, in bytes
}

// newTarget starts the target of a maker. In the slow form it is a process of its own, whose memory
// is the server's.
func newTarget(t *testing.T, maker, mode string) *targetSite {
	if !testkit.Slow() {
		return serveTarget(t, maker, mode)
	}
	g := new(targetSite)
	line := play(t, "TestHTTP2Target", fmt.Sprintf("%s=%s %s", targetEnv, mode, maker))
	if _, err := fmt.Sscan(line, &g.pid, &g.address); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	g.http2Site = newHTTP2Client(t, mode, dialer(g.address))
	t.Cleanup(g.client.CloseIdleConnections)
	g.get("/")
	g.before = g.resident("VmRSS")
	return g
}

// serveTarget starts the target of a maker in this process.
func serveTarget(t *testing.T, maker, mode string) *targetSite {
	g := new(targetHandler)
	set := &http.Server{Handler: g, HTTP2: &http.HTTP2Config{CountError: g.countError}}
	if testkit.Slow() { // so many attackers may take longer than the default to send a head
		set.ReadHeaderTimeout = time.Hour
	}
	s := newHTTP2Site(t, maker, mode, set)
	if ours, ok := s.server.(*engine.Server); ok {
		g.server.Store(ours)
	}
	s.tickets = tls.NewLRUClientSessionCache(1)
	c, err := s.dial()
	testkit.Must(t, err)
	defer c.Close()
	return &targetSite{http2Site: s, address: c.RemoteAddr().String(), pid: os.Getpid()}
}

const (
	targetEnv = "TARE_HTTP2_TARGET"
	attackEnv = "TARE_HTTP2_ATTACK"
	// attackFormat is the format of attackEnv: mode, address, class, number of connections, how
	// many of them at the same time, and for how long.
	attackFormat = "%s %s %q %d %d %d"
)

// TestHTTP2Target is the process that newTarget starts.
func TestHTTP2Target(t *testing.T) {
	mode, maker, ok := strings.Cut(os.Getenv(targetEnv), " ")
	if !ok {
		t.Skip("is run by tests of hostile clients")
	}
	s := serveTarget(t, maker, mode)
	fmt.Println(s.pid, s.address)
	io.Copy(io.Discard, os.Stdin) // until the other process has measured
}

// TestHTTP2Attackers is the process of the attackers that attack starts.
func TestHTTP2Attackers(t *testing.T) {
	var mode, address, class string
	var all, together int
	var limit time.Duration
	if _, err := fmt.Sscanf(os.Getenv(attackEnv), attackFormat, &mode, &address, &class, &all, &together,
		&limit); err != nil {
		t.Skip("is run by TestHTTP2FloodsEndTheirConnections")
	}
	f := http2Floods()[class]
	s := newHTTP2Client(t, mode, dialer(address))
	fmt.Println("attacking")
	err := s.flood(f.bytes(t), all, together, limit)
	fmt.Println("ended:", err)
}

func dialer(address string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.Dial("tcp", address) }
}

// state returns what the target reports.
func (s *targetSite) state() (all targetState) {
	s.Helper()
	text := s.get("/state")
	if _, err := fmt.Sscan(text, &all.calmed, &all.other, &all.begun, &all.open); err != nil {
		s.Fatalf("%q: %v", text, err)
	}
	return all
}

// resident returns a value of /proc/PID/status in bytes.
func (s *targetSite) resident(key string) int {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	testkit.Must(s, err)
	_, value, _ := strings.Cut(string(text), key+":")
	kilobytes, err := strconv.Atoi(strings.Fields(value)[0])
	testkit.Must(s, err)
	return kilobytes << 10
}

// wantMemory fails the test if the target's process has grown by more than a constant and some
// bytes for each of n connections. The constant is mostly garbage.
func (s *targetSite) wantMemory(n, each int) {
	s.Helper()
	const constant, raceFactor = 64 << 20, 5
	limit := constant + n*each
	if testkit.Race {
		limit *= raceFactor
	}
	grown := s.resident("VmHWM") - s.before
	s.Logf("%d connections take %d MB, %d KB each", n, grown>>20, grown>>10/n)
	if grown > limit {
		s.Errorf("%d connections take %d MB, want at most %d", n, grown>>20, limit>>20)
	}
}

// attack floods the target with the frames of a class, by so many connections, so many of them at
// the same time, for at most that long. Meanwhile another client must receive responses. attack
// returns the 99th percentile of their durations. In the slow form, where the attackers are another
// process, it does not call content.
func (s *targetSite) attack(class string, content func() []byte, all, together int, limit time.Duration) time.Duration {
	s.Helper()
	over := make(chan error)
	if testkit.Slow() {
		_, output := playOn(s.T, "TestHTTP2Attackers", attackEnv+"="+fmt.Sprintf(attackFormat, s.mode, s.address,
			class, all, together, limit))
		go func() {
			line, err := output.ReadString('\n')
			if line != "ended: <nil>\n" {
				err = errors.New(line)
			}
			over <- err
		}()
	} else {
		frames := content()
		go func() { over <- s.flood(frames, all, together, limit) }()
	}
	var durations []time.Duration
	for {
		begun := time.Now()
		if got := s.get("/"); got != "hello" {
			s.Errorf("another client has received %q", got)
		}
		durations = append(durations, time.Since(begun))
		select {
		case err := <-over:
			if err != nil {
				s.Error("attackers:", err)
			}
			slices.Sort(durations)
			return durations[len(durations)*99/100]
		default:
		}
	}
}

// flood sends content over connections until the server has ended them, or until the time is over.
func (s *http2Site) flood(content []byte, all, together int, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	var left atomic.Int64
	left.Store(int64(all))
	failed := make(chan error, together)
	var attackers sync.WaitGroup
	for range together {
		attackers.Go(func() {
			for ctx.Err() == nil && left.Add(-1) >= 0 {
				if err := s.floodOne(ctx, content); err != nil && ctx.Err() == nil {
					failed <- err
					return
				}
			}
		})
	}
	attackers.Wait()
	close(failed)
	return <-failed
}

// floodOne sends content over a connection and waits until it has ended.
func (s *http2Site) floodOne(ctx context.Context, content []byte) error {
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Time{}) // ctx has one
	defer context.AfterFunc(ctx, func() { c.Close() })()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, c)
	}()
	const piece = 64 << 10
	for rest := content; len(rest) > 0; {
		sent, err := c.Write(rest[:min(len(rest), piece)])
		if rest = rest[sent:]; err != nil {
			break
		}
	}
	<-ended
	return nil
}
