package client

import (
	"net"
	"syscall"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/poll"
)

// inputWait waits for a socket's input without a buffer. As in rawExchange, RawConn.Read first arms
// Go's poller, and only then the socket is checked.
type inputWait struct {
	raw     syscall.RawConn
	check   func(fd uintptr) bool // allocated once, not for each wait
	isArmed bool                  // check was called
}

func newInputWait(raw syscall.RawConn) *inputWait {
	w := &inputWait{raw: raw}
	// The epoll instance of a unixConn is as quiet as its socket.
	w.check = func(fd uintptr) bool {
		hasInput := w.isArmed || !poll.Quiet(int(fd))
		w.isArmed = true
		return hasInput
	}
	return w
}

// AwaitInput implements connection.InputAwaiter.
func (w *inputWait) AwaitInput() {
	w.isArmed = false
	_ = w.raw.Read(w.check) // the next read returns the error
}

// AwaiterOf returns an InputAwaiter of a TCP or unix socket, or nil for another connection.
func AwaiterOf(nc net.Conn) connection.InputAwaiter {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		if raw, err := nc.(syscall.Conn).SyscallConn(); err == nil {
			return newInputWait(raw)
		}
	}
	return nil
}
