package poll_test

import (
	"io"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

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
