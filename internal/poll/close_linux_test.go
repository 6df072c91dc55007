package poll_test

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

func TestCloseAtOnceCloses(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	testkit.Must(t, poll.CloseAtOnce(fd))
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the peer reads %v", err)
	}
	if err := poll.CloseAtOnce(-1); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a bad descriptor: %v", err)
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
	if !poll.Lingers(-1) {
		t.Error("a socket that cannot be asked does not linger")
	}
}

func TestShutdownEndsBothDirections(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	testkit.Must(t, poll.Shutdown(fd))
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the peer reads %v", err)
	}
	if n, err := poll.Recv(fd, make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if err := poll.CloseWrite(-1); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a bad descriptor: %v", err)
	}
}
