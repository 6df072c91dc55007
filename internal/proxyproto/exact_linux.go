package proxyproto

import (
	"io"
	"os"
	"syscall"
	"time"
)

// readHeader reads the header, and nothing that follows it, if the connection beneath is a socket.
// It waits until a deadline.
func (c *Conn) readHeader(deadline time.Time) error {
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil // Read does it
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	if err := c.Conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	for !c.done {
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			failed = c.receiveExactly(int(fd))
			return failed != syscall.EAGAIN //nolint:errorlint // a bare errno
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return err
		}
	}
	return c.Conn.SetReadDeadline(time.Time{})
}

// receiveExactly looks at what has arrived. It takes what belongs to the header.
func (c *Conn) receiveExactly(fd int) error {
	var b [maxHeader]byte
	n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch {
	case err == syscall.EINTR:
		return nil
	case err == syscall.EAGAIN:
		return err
	case err != nil:
		return os.NewSyscallError("recvfrom", err)
	case n == 0 && len(c.unread) > 0:
		return c.fail(io.ErrUnexpectedEOF)
	case n == 0:
		return io.EOF
	}
	before := len(c.unread)
	all := append(c.unread, b[:n]...)
	h, size, bad := parse(all)
	if bad != nil { // closing the socket with unread bytes would reset the connection
		_, _, _ = syscall.Recvfrom(fd, b[:n], syscall.MSG_DONTWAIT)
		return c.fail(bad)
	}
	if size > 0 {
		n = size - before
	}
	n, _, err = syscall.Recvfrom(fd, b[:n], syscall.MSG_DONTWAIT)
	if err != nil {
		return os.NewSyscallError("recvfrom", err)
	}
	c.unread = all[:before+n]
	if size > 0 && len(c.unread) == size {
		c.Header, c.unread, c.done = h, nil, true
	}
	return nil
}
