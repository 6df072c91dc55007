package poll_test

import (
	"errors"
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
	made, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { made.Close() })
	l = made.(*net.TCPListener)
	testkit.Control(t, l, func(n int) { fd = n })
	return l, fd
}

func dialed(t *testing.T, l net.Listener) netip.AddrPort {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	testkit.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.TCPAddr).AddrPort()
}

func TestAcceptReturnsConnectionAndPeer(t *testing.T) {
	for _, multipath := range []bool{false, true} {
		l, listener := listening(t, multipath)
		if fd, _, err := poll.Accept(listener); fd != -1 || !errors.Is(err, poll.ErrAgain) {
			t.Errorf("nobody has connected: %d, %v", fd, err)
		}
		want := dialed(t, l)
		fd, peer, err := poll.Accept(listener)
		testkit.Must(t, err)
		defer poll.Close(fd)
		if peer != (poll.Peer{Addr: want}) {
			t.Errorf("peer is %+v, want %v", peer, want)
		}
		if !poll.IsNonblocking(fd) {
			t.Error("the connection blocks")
		}
		if err := syscall.SetNonblock(fd, false); err != nil || poll.IsNonblocking(fd) {
			t.Errorf("the connection does not block, %v", err)
		}
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
			t.Error("child processes inherit the connection")
		}
	}
	if _, _, err := poll.Accept(-1); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a bad descriptor: %v", err)
	}
}

func TestQueuedConnectionsAreCounted(t *testing.T) {
	for _, multipath := range []bool{false, true} {
		l, listener := listening(t, multipath)
		for range 3 {
			dialed(t, l)
		}
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			n, err := poll.QueuedConnections(listener)
			if n == 3 && err == nil {
				break
			}
			if err != nil || time.Since(start) > time.Minute {
				t.Fatalf("%d connections wait, %v; want 3", n, err)
			}
		}
	}
}

func TestOptionsAreReadAndSet(t *testing.T) {
	_, fd := listening(t, false)
	want := poll.AcceptedOptions{1, 1, 7, 8, 9}
	testkit.Must(t, want.Set(fd))
	if got, err := poll.ReadAcceptedOptions(fd); got != want || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if idle, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE); idle != 7 || err != nil {
		t.Errorf("%d seconds, %v", idle, err)
	}
}

func TestListenerIsReportedWhileConnectionsWait(t *testing.T) {
	const id = -5
	loop, err := poll.NewLoop()
	testkit.Must(t, err)
	l, listener := listening(t, false)
	relay, err := poll.NewRelay(listener)
	testkit.Must(t, err)
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
	if err := loop.RemoveRelay(relay); err != nil {
		t.Error(err)
	}
	dialed(t, l)
	ended := make(chan error)
	go func() {
		events, _, err := loop.Wait()
		if len(events) > 0 {
			t.Errorf("%v after the relay was removed", events)
		}
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := loop.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("Wait returned without an error after Close")
	}
	if err := loop.AddRelay(relay, id); err == nil {
		t.Error("added after Close")
	}
}
