package client

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// rawSockets returns both ends of a connection for each kind of socket that has a rawExchange.
func rawSockets(t *testing.T) map[string][2]net.Conn {
	t.Helper()
	a, b := sockets(t)
	c, d := unixPair(t)
	e, f := unixPair(t)
	input := inputOnly(e)
	t.Cleanup(func() { input.Close() })
	return map[string][2]net.Conn{"tcp": {a, b}, "unix": {c, d}, "unix, input only": {input, f}}
}

// sendReceive reports the number of bytes sent, however it ends. A response that arrives before the
// request is sent is received, too.
func TestRawExchange(t *testing.T) {
	question, in := []byte("question"), make([]byte, 100)
	for name, test := range map[string]struct {
		prepare func(ours, theirs net.Conn)
		want    string
		err     error
	}{
		"responded":      {func(_, theirs net.Conn) { go respond(theirs, "hello") }, "hello", nil},
		"response first": {func(_, theirs net.Conn) { _, _ = io.WriteString(theirs, "hello") }, "hello", nil},
		"end":            {func(_, theirs net.Conn) { go respond(theirs, "") }, "", io.EOF},
		"reset":          {func(_, theirs net.Conn) { go reset(theirs) }, "", syscall.ECONNRESET},
		"closed here":    {func(ours, _ net.Conn) { ours.Close() }, "", net.ErrClosed},
		"late": {func(ours, theirs net.Conn) {
			go func() { // an earlier deadline could prevent the request, too
				_, _ = theirs.Read(make([]byte, 100))
				_ = ours.SetReadDeadline(time.Unix(1, 0))
			}()
		}, "", os.ErrDeadlineExceeded},
	} {
		for network, ends := range rawSockets(t) {
			ours, theirs := ends[0], ends[1]
			raw := newRawExchange(ours)
			test.prepare(ours, theirs)
			n, got, err := raw.sendReceive(question, in, false)
			if wantSent := name != "closed here"; (n == len(question)) != wantSent || string(in[:got]) != test.want ||
				!errors.Is(err, test.err) {
				t.Errorf("%s, %s: sent %d, got %q, %v", name, network, n, in[:got], err)
			}
		}
	}
}

// On a kept connection nothing is sent if bytes have arrived, whether the poller knows of them or
// not.
func TestRawExchangeSendsNothingOnClosedConnection(t *testing.T) {
	for name, happen := range map[string]func(net.Conn) error{
		"byte": func(c net.Conn) error { _, err := io.WriteString(c, "x"); return err },
		"end":  func(c net.Conn) error { return c.Close() },
		"half end": func(c net.Conn) error {
			return c.(interface{ CloseWrite() error }).CloseWrite()
		},
		"reset": func(c net.Conn) error {
			if tcp, ok := c.(*net.TCPConn); ok {
				return errors.Join(tcp.SetLinger(0), c.Close())
			}
			return c.Close()
		},
	} {
		for network, ends := range rawSockets(t) {
			ours, theirs := ends[0], ends[1]
			raw := newRawExchange(ours)
			go respond(theirs, "hello")
			if _, got, err := raw.sendReceive([]byte("question"), make([]byte, 10), false); got != 5 || err != nil {
				t.Fatal(network, got, err)
			}
			testkit.Must(t, happen(theirs))
			if n, got, err := raw.sendReceive([]byte("question"), make([]byte, 10), true); n != 0 || got != 0 ||
				!errors.Is(err, errIdleConnClosed) {
				t.Errorf("%s, %s: sent %d, got %d, %v", name, network, n, got, err)
			}
		}
	}
}

// respond reads a request and sends a response. It closes the connection if there is no response.
func respond(c net.Conn, text string) {
	_, _ = c.Read(make([]byte, 100))
	if _, _ = io.WriteString(c, text); text == "" {
		c.Close()
	}
}

// reset waits for a request and closes the connection such that its peer reads an error.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
		respond(c, "")
		return
	}
	if raw, err := c.(syscall.Conn).SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool { return !poll.Quiet(int(fd)) }) // a unix socket needs unread input
	}
	c.Close()
}

// Bytes for which the socket has no room are left to the caller, without waiting for a response.
func TestRawExchangeWithFullSocket(t *testing.T) {
	ours, theirs := sockets(t)
	_ = ours.(*net.TCPConn).SetWriteBuffer(4096)
	_ = theirs.(*net.TCPConn).SetReadBuffer(4096)
	out := bytes.Repeat([]byte("x"), 8<<20)
	n, got, err := newRawExchange(ours).sendReceive(out, make([]byte, 10), false)
	if n == 0 || n == len(out) || got != 0 || err != nil {
		t.Errorf("sent %d of %d, got %d, %v", n, len(out), got, err)
	}
}

// While a goroutine that watches a connection still reads from it, the connection has no raw
// exchange.
func TestNoRawExchangeWhileGoroutineReads(t *testing.T) {
	ours, theirs := sockets(t)
	c := New(dialing(ours))
	defer c.CloseIdleConnections()
	go func() {
		for {
			if n, err := theirs.Read(make([]byte, 1000)); n == 0 || err != nil {
				return
			}
			_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		}
	}()
	noDescriptors(t)
	for i := range 3 {
		r := request(t, http.MethodPost, "http://host/", nil)
		resp := testkit.Value(c.RoundTrip(r))(t)
		testkit.Reads(t, resp.Body, "hello", "request", i)
		testkit.WaitFor(t, "the connection to rest", func() bool { return c.Count().Watched == 1 })
	}
}

// noDescriptors uses up all descriptors until the test ends.
func noDescriptors(t *testing.T) {
	t.Helper()
	var before syscall.Rlimit
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	none := before
	none.Cur = 3
	testkit.Must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	t.Cleanup(func() {
		testkit.Check(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	})
}

// A direct connection moves more than the sockets' buffers hold, in both directions at once, and
// ends as the connection beneath does.
func TestDirectConn(t *testing.T) {
	message := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	for network, ends := range rawSockets(t) {
		ours, theirs := Direct(ends[0]), ends[1]
		go func() { _, _ = io.Copy(theirs, io.LimitReader(theirs, int64(len(message)))) }()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = ours.Write(message)
		}()
		got := make([]byte, len(message))
		for n := 0; n < len(got); {
			ours.(connection.InputAwaiter).AwaitInput()
			more, err := ours.Read(got[n:])
			n += more
			testkit.Must(t, err)
		}
		if !bytes.Equal(got, message) {
			t.Errorf("%s: another message", network)
		}
		<-sent
		_ = ours.SetDeadline(time.Now().Add(10 * time.Millisecond))
		var err error
		for err == nil { // until the buffers are full
			_, err = ours.Write(message)
		}
		testkit.Is(t, err, os.ErrDeadlineExceeded, network, "write")
		testkit.FailsWith(ours.Read(got))(t, os.ErrDeadlineExceeded, network, "read")
		_ = ours.SetDeadline(time.Time{})
		go ours.Close() // ends the wait
		ours.(connection.InputAwaiter).AwaitInput()
		testkit.FailsWith(ours.Read(got))(t, net.ErrClosed, network, "read after Close")
		testkit.FailsWith(ours.Write(message))(t, net.ErrClosed, network, "write after Close")
	}
}

// If epoll rejects a socket, a goroutine watches it. What that reads is not lost.
func TestGoroutineWatchesIfEpollFails(t *testing.T) {
	p := &pool{limits: limits{maxIdlePerHost: 1}}
	ours, other := sockets(t)
	w := &p.watcher
	w.loop, w.sockets, w.emptySince = testkit.Value(poll.NewLoop())(t), make(map[int]*conn), time.Now().Add(time.Minute)
	defer p.closeIdle()
	testkit.Control(t, ours, func(fd int) { testkit.Must(t, w.loop.Add(fd, 0, 0)) }) // a second time it fails
	c := open(t, p, "x", ours)
	c.keep()
	testkit.WaitFor(t, "the connection to be watched", func() bool { return p.count().Watched == 1 })
	c = open(t, p, "x", nil)
	testkit.Equal(t, c.Conn == ours && c.pending != nil, true, "it has a goroutine")
	testkit.Send(t, other, "hello")
	testkit.Receives(t, c, "hello")
	c.drop()
}
