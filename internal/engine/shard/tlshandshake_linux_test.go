package shard

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// tlsSite is a server whose TLS connections are served on shards.
type tlsSite struct {
	*site
	handler *atomic.Value // an http.HandlerFunc; a test may store another
}

func newTLSSite(t *testing.T, getConfig func(*tls.ClientHelloInfo) (*tls.Config, error)) tlsSite {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{tlstest.ServerCertificate()}, GetConfigForClient: getConfig}
	handler := new(atomic.Value)
	handler.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }))
	l := tcpListener(t)
	s := newTestServer(t, l, func(w http.ResponseWriter, r *http.Request) {
		handler.Load().(http.HandlerFunc)(w, r)
	}, config)
	plain := s.exchanges
	plain.TLS, plain.HeadTimeout = nil, plain.HandshakeTimeout
	s.config.Plaintext = &Config{Listener: l, Exchanges: &plain, HTTP2: s.config.HTTP2}
	return tlsSite{startSite(t, l, s), handler}
}

// dial returns a connection without TLS.
func (s tlsSite) dial() *net.TCPConn {
	s.Helper()
	return newClient(s.T, s.listener).TCPConn
}

func (s tlsSite) get(c net.Conn, sni string) error {
	_, err := request(tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: sni}))
	return err
}

func (s tlsSite) mustGet(c net.Conn) {
	s.Helper()
	testkit.Check(s, s.get(c, "a"))
}

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
	hello := tlstest.ClientHello(t)
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
	testkit.Equal(t, s.running(), 0, "handshakes run")
	s.mustGet(s.dial())
	c := conns[n-1]
	testkit.Send(t, c, hello[1+(n-1)*(len(hello)-2)/n:])
	testkit.Value(io.ReadFull(c, make([]byte, 100)))(t) // of the response to a complete first message
}

// Clients that do not continue their handshakes lose their connections in favor of newer ones.
func TestStalledHandshakesAreLimited(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	const surplus = 100
	s := newTLSSite(t, nil)
	hello := tlstest.ClientHello(t)
	ended := make(chan bool, maxHandshakes+surplus)
	for range maxHandshakes + surplus {
		c := s.dial()
		c.SetDeadline(time.Time{}) // they stay, however slow the machine is
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
	testkit.Between(t, s.running(), maxHandshakes/2, maxHandshakes, "handshakes run")
}

// A function of the tls.Config that waits holds up only the handshakes that have called it. Others are
// at most delayed.
func TestWaitingTLSConfigHoldsUpNoOtherHandshake(t *testing.T) {
	n := 4 * runtime.GOMAXPROCS(0)
	for _, isLate := range []bool{false, true} { // when the configuration was chosen
		release := make(chan bool)
		var entered atomic.Int64
		wait := func(tls.ConnectionState) error {
			entered.Add(1)
			<-release
			return nil
		}
		s := newTLSSite(t, func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			switch {
			case hello.ServerName != "slow":
				return nil, nil
			case isLate:
				return &tls.Config{Certificates: []tls.Certificate{tlstest.ServerCertificate()}, VerifyConnection: wait}, nil
			}
			return nil, wait(tls.ConnectionState{})
		})
		results := make(chan error, n)
		begin := func() {
			for range n {
				c := s.dial()
				go func() { results <- s.get(c, "slow") }()
			}
		}
		if isLate { // their turns end by themselves
			begin()
		} else {
			s.queue(n, begin)()
		}
		testkit.WaitFor(t, "all handshakes to begin", func() bool { return entered.Load() == int64(n) })
		s.mustGet(s.dial())
		close(release)
		for range n {
			testkit.Check(t, <-results)
		}
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
			err := s.get(s.dial(), name)
			testkit.Equal(t, err == nil || os.IsTimeout(err), false, name, "leaves the connection", err)
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
	testkit.Send(t, c, tlstest.ClientHello(t))
	testkit.WaitFor(t, "the handshake to begin", func() bool { return s.running() == 1 })
	testkit.Check(t, s.server.Shutdown(t.Context()))
	if _, err := io.Copy(io.Discard, c); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error(err)
	}
}

// queue makes the n handshakes that begin starts wait until release is called. Turns never end by
// themselves.
func (s tlsSite) queue(n int, begin func()) (release func()) {
	s.Helper()
	all := &s.server.group.handshakes
	all.mu.Lock()
	*all.computing = runtime.GOMAXPROCS(0) // others compute
	all.timer = new(time.Timer)
	all.mu.Unlock()
	begin()
	testkit.WaitFor(s, "the queue", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return all.queue.Len() == n
	})
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		*all.computing = 0
		all.startQueued()
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
	release := s.queue(n, func() {
		for range n {
			testkit.Send(t, s.dial(), tlstest.ClientHello(t))
		}
	})
	s.server.Close()
	release()
	testkit.WaitFor(t, "all connections to end", func() bool { return s.server.group.Open() == 0 })
	testkit.Equal(t, begun.Load(), 0, "handshakes have begun")
}

// deadline waits until the connections have read everything and wait, and returns their first
// deadline.
func (s *testServer) deadline(t *testing.T) instant {
	var all []instant
	testkit.WaitFor(t, "the connections to read everything and wait", func() bool {
		wait := true
		all = nil
		s.group.conns.each(func(k *shardConn) {
			unread, err := poll.Unread(int(k.fd))
			wait = wait && err == nil && unread == 0 && k.state.is(stateWaiting) && k.state.has(flagAdded)
			all = append(all, k.deadline(waitInput))
		})
		return wait && len(all) > 0
	})
	return slices.Min(all)
}

// Timeouts begin when a connection is accepted, when its handshake has ended, and with each request.
func TestTimeoutsBeginWithTheirEvents(t *testing.T) {
	secure, plain := newTLSSite(t, nil), newOutboxSite(t)
	sender, first, second := plain.connect(), plain.connect(), plain.connect()
	var over *tls.Conn
	for _, test := range []struct {
		name    string
		server  *testServer
		event   func() error
		timeout time.Duration
	}{
		{"accept", secure.server, func() error {
			over = tls.Client(secure.dial(), &tls.Config{InsecureSkipVerify: true})
			return nil
		}, secure.server.exchanges.HandshakeTimeout},
		{"handshake", secure.server, func() error { return over.Handshake() }, secure.server.exchanges.HeadTimeout},
		{"request", plain.server, func() error {
			plain.turn(sender, func() {
				first.request("/", "")
				second.request("/", "")
			})
			first.want(t, "/")
			second.want(t, "/")
			return nil
		}, plain.server.exchanges.IdleTimeout},
	} {
		g := test.server.group
		from := g.now()
		testkit.Must(t, test.event())
		testkit.Between(t, test.server.deadline(t)-instant(test.timeout), from, g.now(), test.name)
	}
	endless := newOutboxSite(t, func(c *Config) { c.Exchanges.IdleTimeout = 0 })
	endless.connect()
	testkit.Equal(t, endless.server.deadline(t), 0, "the deadline without an idle timeout")
}

// The bytes of a record that stays incomplete do not extend the idle timeout, and those of a head do
// not extend its timeout.
func TestPartsExtendNoTimeout(t *testing.T) {
	secure, plain, mixed := newTLSSite(t, nil), newOutboxSite(t), newTLSSite(t, nil)
	over, c := secure.dial(), plain.connect()
	secure.mustGet(over)
	for name, test := range map[string]struct {
		server      *testServer
		conn        net.Conn
		first, part string
	}{
		"record": {secure.server, over, "", "\x17\x03\x03\x00\x40 part"},
		"head":   {plain.server, c, "GET", " / HTTP"},
		"no TLS": {mixed.server, mixed.dial(), "", "GET"},
	} {
		send := func(part string) instant {
			reported := test.server.turns()
			if part != "" {
				testkit.Send(t, test.conn, part)
				testkit.WaitFor(t, "a loop to report the part", func() bool { return test.server.turns() > reported })
			}
			return test.server.deadline(t)
		}
		before := send(test.first)
		testkit.Equal(t, before > 0, true, name, "has a deadline")
		testkit.Equal(t, send(test.part), before, name, "the deadline")
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
			_, err := k.tls.conn.Write([]byte("earlier,")) // TrySend without room
			testkit.Check(t, err)
		})
		c, _, err := http.NewResponseController(w).Hijack()
		testkit.Must(t, err)
		defer c.Close()
		io.WriteString(c, "later")
	}))
	c := tls.Client(s.dial(), &tls.Config{InsecureSkipVerify: true})
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Equal(t, string(testkit.Value(io.ReadAll(c))(t)), "earlier,later")
}

// The loop does not report a hijacked connection.
func TestHijackedConnectionIsNotReported(t *testing.T) {
	s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, _ *http.Request) {
		c, in, err := http.NewResponseController(w).Hijack()
		testkit.Must(t, err)
		defer c.Close()
		_, _ = io.Copy(c, in)
	})
	c := newClient(t, s.listener)
	c.request("/", "")
	before, echo := s.server.turns(), make([]byte, 1)
	for range 100 {
		io.WriteString(c, "x")
		testkit.Value(io.ReadFull(c, echo))(t)
	}
	testkit.Between(t, s.server.turns()-before, 0, 10, "events")
}
