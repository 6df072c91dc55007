package client

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/tarehq/tare/internal/poll"
)

// talk sends on a socket and waits for the answer, in one go. It tells Go's poller to listen,
// sends, and does not look whether there is an answer before the poller says so: a read that
// finds nothing is a system call for each request. And the calls, which cannot block, are made
// without telling the scheduler. Both together take a tenth off a request over loopback.
type talk struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool // made once, and not for each request

	out, in        []byte
	asked          bool
	sent, received int
	err            error
}

// newTalk returns what talks on a connection, or nil if that is no plain socket.
func newTalk(nc net.Conn) *talk {
	var raw syscall.RawConn
	var err error
	switch nc := nc.(type) {
	case *net.TCPConn:
		raw, err = nc.SyscallConn()
	case *net.UnixConn:
		raw, err = nc.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	t := &talk{raw: raw}
	t.step = t.advance
	return t
}

// ask sends out and, if all of it has gone, waits for something to arrive, which it puts into in.
// It returns how much was sent; received without an error is not 0.
func (t *talk) ask(out, in []byte) (sent, received int, err error) {
	t.out, t.in, t.asked, t.sent, t.received, t.err = out, in, false, 0, 0, nil
	err = t.raw.Read(t.step)
	t.out, t.in = nil, nil
	if err == nil {
		err = t.err
	}
	return t.sent, t.received, err
}

// advance reports whether there is nothing to wait for.
func (t *talk) advance(fd uintptr) bool {
	var err error
	if !t.asked {
		t.asked = true
		t.sent, err = poll.Send(int(fd), t.out)
		if err == poll.ErrAgain { //nolint:errorlint // a bare errno
			err = nil
		}
		t.err = os.NewSyscallError("send", err)
		return err != nil || t.sent < len(t.out)
	}
	t.received, err = poll.Recv(int(fd), t.in)
	switch {
	case err == poll.ErrAgain: //nolint:errorlint // a bare errno
		return false
	case err != nil:
		t.err = os.NewSyscallError("recv", err)
	case t.received == 0:
		t.err = io.EOF
	}
	return true
}
