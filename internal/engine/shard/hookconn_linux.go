package shard

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// The methods that make a hookConn a net.Conn and a syscall.Conn. Any goroutine may call them at
// any time. They never wait. Once a handler has hijacked the connection, they are those of its
// net.Conn.
var (
	_ net.Conn     = (*hookConn)(nil)
	_ syscall.Conn = (*hookConn)(nil)
)

// hijacked returns the connection of package net if a handler has taken it, and nil otherwise.
func (h *hookConn) hijacked() net.Conn {
	if nc := h.taken.Load(); nc != nil {
		return *nc
	}
	return nil
}

// Read implements net.Conn. The shard alone reads.
func (h *hookConn) Read(p []byte) (int, error) {
	if nc := h.hijacked(); nc != nil {
		return nc.Read(p)
	}
	return 0, h.conn.opError("read", errors.ErrUnsupported)
}

// Write implements net.Conn. It sends what the socket has room for.
func (h *hookConn) Write(p []byte) (int, error) {
	if nc := h.hijacked(); nc != nil {
		return nc.Write(p)
	}
	if !h.conn.acquire() {
		return 0, h.conn.opError("write", net.ErrClosed)
	}
	defer h.conn.release()
	n, err := poll.Send(int(h.conn.fd), p)
	switch {
	case err == poll.ErrAgain: //nolint:errorlint // a bare errno
		return n, io.ErrShortWrite
	case err != nil:
		return n, h.conn.opError("write", os.NewSyscallError("send", err))
	case n < len(p):
		return n, io.ErrShortWrite
	}
	return n, nil
}

// Close implements net.Conn. The shard notices that the connection has ended, and closes it.
func (h *hookConn) Close() error {
	if nc := h.hijacked(); nc != nil {
		return nc.Close()
	}
	if h.isClosed.Swap(true) {
		return h.conn.opError("close", net.ErrClosed)
	}
	h.conn.shutdown()
	return nil
}

// CloseWrite shuts down the sending side.
func (h *hookConn) CloseWrite() error {
	if half, ok := h.hijacked().(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	if !h.conn.acquire() {
		return h.conn.opError("close", net.ErrClosed)
	}
	defer h.conn.release()
	return poll.CloseWrite(int(h.conn.fd))
}

// LocalAddr implements net.Conn.
func (h *hookConn) LocalAddr() net.Addr {
	if h.below != nil {
		return h.below.local
	}
	return h.conn.LocalAddr()
}

// RemoteAddr implements net.Conn.
func (h *hookConn) RemoteAddr() net.Addr {
	if h.below != nil {
		return h.below.remote
	}
	return h.conn.RemoteAddr()
}

// SetDeadline implements net.Conn. The deadline lasts until the shard sets another.
func (h *hookConn) SetDeadline(t time.Time) error {
	if nc := h.hijacked(); nc != nil {
		return nc.SetDeadline(t)
	}
	return h.conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (h *hookConn) SetReadDeadline(t time.Time) error {
	if nc := h.hijacked(); nc != nil {
		return nc.SetReadDeadline(t)
	}
	return h.conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (h *hookConn) SetWriteDeadline(t time.Time) error {
	if nc := h.hijacked(); nc != nil {
		return nc.SetWriteDeadline(t)
	}
	return h.conn.SetWriteDeadline(t)
}

// SyscallConn implements syscall.Conn.
func (h *hookConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := h.hijacked().(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return rawConn{h.conn}, nil
}

// rawConn gives access to the descriptor of a connection on a shard.
type rawConn struct{ conn *shardConn }

// Control implements syscall.RawConn.
func (r rawConn) Control(f func(fd uintptr)) error {
	if !r.conn.acquire() {
		return net.ErrClosed
	}
	defer r.conn.release()
	f(uintptr(r.conn.fd))
	return nil
}

// Read implements syscall.RawConn. It does not wait for input.
func (r rawConn) Read(f func(fd uintptr) (done bool)) error { return r.try(f) }

// Write implements syscall.RawConn. It does not wait for room.
func (r rawConn) Write(f func(fd uintptr) (done bool)) error { return r.try(f) }

// try calls f once.
func (r rawConn) try(f func(fd uintptr) (done bool)) error {
	done := false
	err := r.Control(func(fd uintptr) { done = f(fd) })
	if err == nil && !done {
		return errors.ErrUnsupported
	}
	return err
}
