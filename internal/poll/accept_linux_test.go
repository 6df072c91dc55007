package poll_test

import (
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

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
