package shard

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// tlsSite is a server whose TLS connections are served on shards.
type tlsSite struct {
	*testing.T
	server  *testServer
	addr    string
	handler *atomic.Value // an http.HandlerFunc; a test may store another
}

func newTLSSite(t *testing.T, getConfig func(*tls.ClientHelloInfo) (*tls.Config, error)) tlsSite {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{testkit.ServerCertificate()}, GetConfigForClient: getConfig}
	handler := new(atomic.Value)
	handler.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }))
	l := tcpListener(t)
	s := newTestServer(t, l, func(w http.ResponseWriter, r *http.Request) {
		handler.Load().(http.HandlerFunc)(w, r)
	}, config)
	startSite(t, l, s)
	return tlsSite{t, s, l.Addr().String(), handler}
}

// dial returns a connection without TLS.
func (s tlsSite) dial() *net.TCPConn {
	s.Helper()
	c := testkit.Value(net.Dial("tcp", s.addr))(s)
	s.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c.(*net.TCPConn)
}

// get sends a request over TLS, and returns its error.
func (s tlsSite) get(c net.Conn, sni string) error {
	tc := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: sni})
	if _, err := io.WriteString(tc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(tc), nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (s tlsSite) mustGet(c net.Conn) {
	s.Helper()
	testkit.Check(s, s.get(c, "a"))
}

// running returns how many goroutines perform handshakes.
func (s tlsSite) running() int {
	h := &s.server.group.handshakes
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running
}

// A client that has not sent its whole first message occupies no goroutine.
func TestPartsOfFirstMessageStartNoHandshake(t *testing.T) {
	const n = 50
	s := newTLSSite(t, nil)
	s.mustGet(s.dial())
	hello := testkit.ClientHello(t)
	testkit.WaitFor(t, "the handshake to end", func() bool { return s.running() == 0 })
	var conns []*net.TCPConn
	for i := range n {
		c := s.dial()
		testkit.Send(t, c, hello[:1+i*(len(hello)-2)/n])
		conns = append(conns, c)
	}
	testkit.WaitFor(t, "all parts to arrive", func() bool {
		waiting := 0
		s.server.group.conns.each(func(k *shardConn) {
			if unread, err := poll.Unread(int(k.fd)); err == nil && unread > 0 && k.state.has(flagAdded) &&
				k.state.is(stateWaiting) {
				waiting++
			}
		})
		return waiting == n
	})
	if r := s.running(); r != 0 {
		t.Errorf("%d handshakes run", r)
	}
	s.mustGet(s.dial())
	c := conns[n-1]
	testkit.Send(t, c, hello[1+(n-1)*(len(hello)-2)/n:])
	if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
		t.Errorf("no response to a complete first message: %v", err)
	}
}

// Clients that do not continue their handshakes lose their connections in favor of newer ones.
func TestStalledHandshakesAreLimited(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	const surplus = 100
	s := newTLSSite(t, nil)
	hello := testkit.ClientHello(t)
	ended := make(chan bool, maxHandshakes+surplus)
	for range maxHandshakes + surplus {
		c := s.dial()
		testkit.Send(t, c, hello)
		go func() {
			_, _ = io.Copy(io.Discard, c)
			ended <- true
		}()
	}
	for range surplus {
		<-ended
	}
	s.mustGet(s.dial())
	if r := s.running(); r > maxHandshakes || r < maxHandshakes/2 {
		t.Errorf("%d handshakes run, want at most %d and many", r, maxHandshakes)
	}
}

// A function of the tls.Config that waits delays only the handshakes that have called it.
func TestWaitingTLSConfigDelaysNoOtherHandshake(t *testing.T) {
	n := 4 * runtime.GOMAXPROCS(0)
	release := make(chan bool)
	var entered atomic.Int64
	s := newTLSSite(t, func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName == "slow" {
			entered.Add(1)
			<-release
		}
		return nil, nil
	})
	results := make(chan error, n)
	for range n {
		c := s.dial()
		go func() { results <- s.get(c, "slow") }()
	}
	testkit.WaitFor(t, "all handshakes to begin", func() bool { return entered.Load() == int64(n) })
	s.mustGet(s.dial())
	close(release)
	for range n {
		testkit.Check(t, <-results)
	}
}

// A function of the tls.Config that panics or ends its goroutine ends only its connection.
func TestFailingTLSConfigEndsOnlyItsConnection(t *testing.T) {
	s := newTLSSite(t, func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		switch hello.ServerName {
		case "panic":
			panic("test")
		case "goexit":
			runtime.Goexit()
		}
		return nil, nil
	})
	for range 3 * runtime.GOMAXPROCS(0) {
		for _, name := range []string{"panic", "goexit"} {
			if err := s.get(s.dial(), name); err == nil || strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s: %v, want the end of the connection", name, err)
			}
		}
	}
	s.mustGet(s.dial())
	testkit.WaitFor(t, "all handshakes to end", func() bool { return s.running() == 0 })
}

// Shutdown does not wait for clients that do not continue their handshakes.
func TestShutdownEndsHandshakes(t *testing.T) {
	testkit.Long(t, "it waits for a timeout")
	t.Parallel()
	s := newTLSSite(t, nil)
	c := s.dial()
	testkit.Send(t, c, testkit.ClientHello(t))
	testkit.WaitFor(t, "the handshake to begin", func() bool { return s.running() == 1 })
	testkit.Check(t, s.server.Shutdown(t.Context()))
	if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error(err)
	}
}

// Close ends connections whose handshakes are queued without a handshake.
func TestCloseEndsQueuedHandshakes(t *testing.T) {
	const n = 5
	var begun atomic.Int64
	s := newTLSSite(t, func(*tls.ClientHelloInfo) (*tls.Config, error) {
		begun.Add(1)
		return nil, nil
	})
	all := &s.server.group.handshakes
	all.mu.Lock()
	for range runtime.GOMAXPROCS(0) { // of others
		all.computing.PushBack(new(handshake))
	}
	all.timer = new(time.Timer) // so that their turns never end
	all.mu.Unlock()
	for range n {
		testkit.Send(t, s.dial(), testkit.ClientHello(t))
	}
	testkit.WaitFor(t, "the queue", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return all.queue.Len() == n
	})
	s.server.Close()
	all.mu.Lock()
	all.computing.Init()
	all.startQueued()
	all.mu.Unlock()
	testkit.WaitFor(t, "all connections to end", func() bool { return s.server.group.Open() == 0 })
	if begun := begun.Load(); begun > 0 {
		t.Errorf("%d handshakes have begun", begun)
	}
}

// The bytes of a record that stays incomplete do not extend the idle timeout.
func TestPartOfRecordDoesNotExtendIdleTimeout(t *testing.T) {
	s := newTLSSite(t, nil)
	c := s.dial()
	s.mustGet(c)
	deadline := func() (at instant) {
		testkit.WaitFor(t, "the connection to read everything and wait", func() bool {
			waits := false
			s.server.group.conns.each(func(k *shardConn) {
				unread, err := poll.Unread(int(k.fd))
				waits = err == nil && unread == 0 && k.state.is(stateWaiting) && k.state.has(flagAdded)
				at = k.waitDeadline()
			})
			return waits
		})
		return at
	}
	before := deadline()
	reported := s.server.turns()
	testkit.Send(t, c, "\x17\x03\x03\x00\x40 part")
	testkit.WaitFor(t, "a loop to report the part", func() bool { return s.server.turns() > reported })
	if after := deadline(); before == 0 || after != before {
		t.Errorf("the deadline moved from %d to %d", before, after)
	}
}

// The buffer that holds a client's first message is hardly larger than the message, for all sizes
// of messages that clients send.
func TestFragmentsMakeBufferOfMessageSmall(t *testing.T) {
	for size := mostFragment + 1; size <= maxPlaintext; size += 7 {
		f := fragmentOf(size)
		if f > mostFragment || f < mostFragment/2 {
			t.Fatalf("fragments of %d bytes for %d", f, size)
		}
		held := func(f int) int {
			var b bytes.Buffer // as package tls has one
			for left := size; left > 0; left -= f {
				b.Write(make([]byte, min(left, f)))
			}
			return b.Cap()
		}
		got := held(f)
		if got > held(mostFragment) || size <= 4*mostFragment && got > size+size/6 {
			t.Errorf("%d bytes, in fragments of %d, make a buffer of %d", size, f, got)
		}
	}
}

// What was encrypted before a hijack, and waits for room, is sent before what the handler writes.
func TestHijackSendsWaitingCiphertext(t *testing.T) {
	s := newTLSSite(t, nil)
	s.handler.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.server.group.conns.each(func(k *shardConn) {
			if _, err := k.tls.conn.Write([]byte("earlier,")); err != nil { // TrySend without room
				t.Error(err)
			}
		})
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "later")
	}))
	c := tls.Client(s.dial(), &tls.Config{InsecureSkipVerify: true})
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if b, err := io.ReadAll(c); err != nil || string(b) != "earlier,later" {
		t.Errorf("received %q, %v", b, err)
	}
}

// The loop does not report a hijacked connection.
func TestHijackedConnectionIsNotReported(t *testing.T) {
	s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, _ *http.Request) {
		c, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, in)
	})
	c := newClient(t, s.listener)
	defer c.Close()
	c.request("/", "")
	before, echo := s.server.turns(), make([]byte, 1)
	for range 100 {
		io.WriteString(c, "x")
		testkit.Value(io.ReadFull(c, echo))(t)
	}
	if n := s.server.turns() - before; n > 10 {
		t.Errorf("the loops have reported events %d times", n)
	}
}
