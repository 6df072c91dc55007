package client

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/tarehq/tare/internal/poll"
)

// talk sends on a socket and waits for the answer, in one go. It tells Go's poller to listen,
// looks whether a kept connection is still one, sends, and does not look for an answer before the
// poller says that there is one: a read that finds nothing is a system call for each request. And
// the calls, which cannot block, are made without telling the scheduler. Both together take a tenth
// off a request over loopback.
//
// The poller tells only of what comes once it listens. So the look is taken then, and not before:
// what came earlier nobody would ever tell of.
type rawExchange struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool // made once, and not for each request

	out, in        []byte
	wasIdle        bool // the connection has served another request
	hasSent        bool
	sent, received int
	err            error
}

// newTalk returns what talks on a connection, or nil if that is no plain socket.
func newRawExchange(nc net.Conn) *rawExchange {
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
	t := &rawExchange{raw: raw}
	t.step = t.advance
	return t
}

// ask sends out and, if all of it has gone, waits for something to arrive, which it puts into in.
// It returns how much was sent; received without an error is not 0. If something has come on a
// connection that was kept, be it its end, nothing is sent.
func (t *rawExchange) sendReceive(out, in []byte, wasIdle bool) (sent, received int, err error) {
	t.out, t.in, t.wasIdle, t.hasSent, t.sent, t.received, t.err = out, in, wasIdle, false, 0, 0, nil
	err = t.raw.Read(t.step)
	t.out, t.in = nil, nil
	if err == nil {
		err = t.err
	}
	return t.sent, t.received, err
}

// advance reports whether there is nothing to wait for.
func (t *rawExchange) advance(fd uintptr) bool {
	if !t.hasSent {
		t.hasSent = true
		quiet := poll.Quiet(int(fd))
		if !quiet && t.wasIdle {
			t.err = errIdleConnClosed
			return true
		}
		if !t.send(int(fd)) {
			return true
		}
		if quiet {
			return false
		}
	}
	var err error
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

// send reports whether all was sent.
func (t *rawExchange) send(fd int) bool {
	var err error
	if t.sent, err = poll.Send(fd, t.out); err != nil && err != poll.ErrAgain { //nolint:errorlint // a bare errno
		t.err = os.NewSyscallError("send", err)
	}
	return t.sent == len(t.out)
}
