package poll_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

func TestSendEndSendsDataAndTheEnd(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	testkit.Equal(t, poll.SendEnd(fd, []byte("last")), 4)
	testkit.Equal(t, string(testkit.Value(io.ReadAll(server))(t)), "last")
	testkit.Fails(poll.Send(fd, []byte("more")))(t, "broken pipe")
}

// Input that was not read makes Close reset the connection. The peer has the data nevertheless.
func TestSendEndBeforeResetLosesNothing(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	testkit.Send(t, server, "unread")
	p := poller(t)
	testkit.Must(t, p.Add(fd, 1))
	next(t, p, func(e poll.Event) bool { return e.Readable })
	testkit.Equal(t, poll.SendEnd(fd, []byte("last")), 4)
	poll.Close(fd)
	b := make([]byte, 4)
	testkit.Value(io.ReadFull(server, b))(t)
	testkit.Equal(t, string(b), "last")
}

func TestSendEndWithoutRoomDoesNotEndTheOutput(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	data := bytes.Repeat([]byte("x"), 64<<20)
	n := poll.SendEnd(fd, data)
	testkit.Between(t, n, 1, len(data)-1, "bytes into a socket without a reader")
	got := make([]byte, n)
	testkit.Value(io.ReadFull(server, got))(t) // also the last ones are sent
	testkit.Equal(t, testkit.Value(poll.Send(fd, data[:1]))(t), 1, "after the peer has read")
}

func TestSendEndOnFailedConnectionSendsNothing(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	testkit.Must(t, server.(*net.TCPConn).SetLinger(0))
	server.Close() // resets the connection
	p := poller(t)
	testkit.Must(t, p.Add(fd, 1))
	next(t, p, func(e poll.Event) bool { return e.Ended })
	testkit.FailsWith(poll.Recv(fd, make([]byte, 1)))(t, syscall.ECONNRESET)
	testkit.Equal(t, poll.SendEnd(fd, []byte("last")), 0)
}

func TestPeerReadsHowConnectionEnds(t *testing.T) {
	for want, end := range map[error]func(fd int) error{io.EOF: poll.CloseAtOnce, syscall.ECONNRESET: poll.Reset} {
		fd, server := connected(t, "127.0.0.1:0")
		testkit.Must(t, end(fd))
		testkit.FailsWith(server.Read(make([]byte, 1)))(t, want)
		testkit.Is(t, end(-1), syscall.EBADF)
	}
}

// The connections of a listening socket inherit that it lingers.
func TestLingeringSocketsAreRecognized(t *testing.T) {
	l, listener := listening(t, false)
	for _, test := range []struct {
		set   syscall.Linger
		wants bool
	}{
		{syscall.Linger{}, false},
		{syscall.Linger{Onoff: 1, Linger: 0}, false}, // resets at once
		{syscall.Linger{Onoff: 1, Linger: 3}, true},
	} {
		testkit.Must(t, syscall.SetsockoptLinger(listener, syscall.SOL_SOCKET, syscall.SO_LINGER, &test.set))
		dialed(t, l)
		fd, _, err := poll.Accept(listener)
		testkit.Must(t, err)
		for _, s := range []int{listener, fd} {
			testkit.Equal(t, poll.Lingers(s), test.wants, test.set)
		}
		poll.CloseAtOnce(fd)
	}
	testkit.Equal(t, poll.Lingers(-1), true, "a socket that cannot be asked")
}

func TestShutdownEndsBothDirections(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	testkit.Must(t, poll.Shutdown(fd))
	testkit.FailsWith(server.Read(make([]byte, 1)))(t, io.EOF, "the peer")
	testkit.Equal(t, testkit.Value(poll.Recv(fd, make([]byte, 1)))(t), 0)
	testkit.Is(t, poll.CloseWrite(-1), syscall.EBADF)
}

// A socket is quiet until something arrives: bytes, the end of the input, or a failure.
func TestQuietReportsWhatArrives(t *testing.T) {
	for name, arrive := range map[string]func(net.Conn){
		"a byte":  func(c net.Conn) { _, _ = io.WriteString(c, "x") },
		"the end": func(c net.Conn) { _ = c.(interface{ CloseWrite() error }).CloseWrite() },
		"a close": func(c net.Conn) { c.Close() },
		"a reset": func(c net.Conn) {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			c.Close()
		},
	} {
		for _, network := range []string{"tcp", "unix"} {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			l := testkit.Value(net.Listen(network, address))(t)
			defer l.Close()
			own, peer := testkit.Connect(t, l, new(net.Dialer))
			quiet := func() (is bool) {
				testkit.Control(t, own, func(fd int) { is = poll.Quiet(fd) })
				return is
			}
			for range 3 {
				testkit.Equal(t, quiet(), true, network, name, "before")
			}
			arrive(peer)
			testkit.WaitFor(t, network+": "+name, func() bool { return !quiet() })
			testkit.Equal(t, quiet(), false, network, name, "again: checking consumes nothing")
		}
	}
}

func TestConnectUnixReturnsErrAgainIfBacklogIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for name, want := range map[string]error{path: syscall.ENOENT, "/" + strings.Repeat("s", 107): syscall.EINVAL} {
		testkit.FailsWith(poll.ConnectUnix(name))(t, want, name)
	}
	listener := testkit.Value(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	defer poll.Close(listener)
	testkit.Must(t, syscall.Bind(listener, &syscall.SockaddrUnix{Name: path}))
	testkit.FailsWith(poll.ConnectUnix(path))(t, syscall.ECONNREFUSED, "without a listener")
	testkit.Must(t, syscall.Listen(listener, 1))
	for range 10 {
		fd, err := poll.ConnectUnix(path)
		if errors.Is(err, poll.ErrAgain) && fd == -1 {
			return
		}
		testkit.Must(t, err)
		defer poll.Close(fd)
	}
	t.Error("a queue for one connection holds ten")
}

// listening returns a listener of package net and its descriptor.
func listening(t *testing.T, multipath bool) (l *net.TCPListener, fd int) {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(multipath)
	made := testkit.Value(config.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { made.Close() })
	l = made.(*net.TCPListener)
	testkit.Control(t, l, func(n int) { fd = n })
	return l, fd
}

func dialed(t *testing.T, l net.Listener) netip.AddrPort {
	t.Helper()
	c := testkit.Value(net.Dial("tcp", l.Addr().String()))(t)
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.TCPAddr).AddrPort()
}

func TestAcceptReturnsConnectionAndPeer(t *testing.T) {
	for _, multipath := range []bool{false, true} {
		l, listener := listening(t, multipath)
		_, _, err := poll.Accept(listener)
		testkit.Is(t, err, poll.ErrAgain, "nobody has connected")
		want := dialed(t, l)
		fd, peer, err := poll.Accept(listener)
		testkit.Must(t, err)
		defer poll.Close(fd)
		testkit.Equal(t, peer, poll.Peer{Addr: want})
		testkit.Equal(t, poll.IsNonblocking(fd), true)
		testkit.Must(t, syscall.SetNonblock(fd, false))
		testkit.Equal(t, poll.IsNonblocking(fd), false)
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		testkit.Equal(t, errno == 0 && flags&syscall.FD_CLOEXEC != 0, true, "child processes do not inherit it")
	}
	_, _, err := poll.Accept(-1)
	testkit.Is(t, err, syscall.EBADF)
}

func TestQueuedConnectionsAreCounted(t *testing.T) {
	for _, multipath := range []bool{false, true} {
		l, listener := listening(t, multipath)
		for range 3 {
			dialed(t, l)
		}
		testkit.WaitFor(t, "3 connections to wait", func() bool {
			return testkit.Value(poll.QueuedConnections(listener))(t) == 3
		})
	}
}

func TestOptionsAreReadAndSet(t *testing.T) {
	_, fd := listening(t, false)
	want := poll.AcceptedOptions{1, 1, 7, 8, 9}
	testkit.Must(t, want.Set(fd))
	testkit.Equal(t, testkit.Value(poll.ReadAcceptedOptions(fd))(t), want)
	testkit.Equal(t, testkit.Value(syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE))(t), 7)
}

func TestListenerIsReportedWhileConnectionsWait(t *testing.T) {
	const id = -5
	loop := testkit.Value(poll.NewLoop())(t)
	l, listener := listening(t, false)
	relay := testkit.Value(poll.NewRelay(listener))(t)
	defer poll.Close(relay)
	testkit.Must(t, loop.AddRelay(relay, id))
	dialed(t, l)
	dialed(t, l)
	for range 2 {
		events, _, err := loop.Wait()
		if err != nil || len(events) != 1 || events[0].ID != id || !events[0].Readable {
			t.Fatalf("%v, %v", events, err)
		}
		fd, _, err := poll.Accept(listener)
		testkit.Must(t, err)
		defer poll.Close(fd)
	}
	testkit.Check(t, loop.RemoveRelay(relay))
	dialed(t, l)
	ended := make(chan error)
	go func() {
		events, _, err := loop.Wait()
		testkit.Equal(t, len(events), 0, "events after the relay was removed")
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	testkit.Check(t, loop.Close())
	testkit.Equal(t, <-ended == nil, false, "Wait returned without an error after Close")
	testkit.Equal(t, loop.AddRelay(relay, id) == nil, false, "added after Close")
}
