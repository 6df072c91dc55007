package engine

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// What makes a sock a net.Conn: calls that wait, for a goroutine, without holding
// the loop up.
var _ net.Conn = (*sock)(nil)

// Read implements net.Conn.
func (k *sock) Read(p []byte) (int, error) {
	if !k.acquire() {
		return 0, net.ErrClosed
	}
	defer k.release()
	if len(p) == 0 {
		return 0, nil
	}
	for waited := false; ; waited = true {
		if k.passed(&k.readDeadline) {
			return 0, k.opError("read", os.ErrDeadlineExceeded)
		}
		n, err := poll.Recv(int(k.fd), p)
		switch {
		case err == nil && n == 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case err != poll.ErrAgain: //nolint:errorlint // a bare errno
			return 0, k.opError("read", os.NewSyscallError("recv", err))
		}
		if !k.wait(forInput, waited, 0) {
			return 0, net.ErrClosed
		}
	}
}

// Write implements net.Conn. It is for who serves the sock, and nobody else closes it
// meanwhile: so unlike Read, which a handler's leftovers may be in, it need not acquire
// the descriptor.
func (k *sock) Write(p []byte) (written int, err error) {
	var stalled instant
	for waited := false; ; waited = true {
		if k.passed(&k.writeDeadline) || k.stalls(stalled) {
			return written, k.opError("write", os.ErrDeadlineExceeded)
		}
		before := written
		for written < len(p) {
			n, err := poll.Send(int(k.fd), p[written:])
			written += n
			if err == poll.ErrAgain { //nolint:errorlint // a bare errno
				break
			}
			if err != nil {
				return written, k.opError("write", os.NewSyscallError("send", err))
			}
		}
		if written == len(p) {
			return written, nil
		}
		stalled = k.stallsAt(stalled, written > before)
		if !k.wait(forOutput, waited, stalled) {
			return written, net.ErrClosed
		}
	}
}

// writePieces is Write for pieces that follow each other.
func (k *sock) writePieces(pieces [][]byte) error {
	var stalled instant
	for waited := false; ; waited = true {
		if k.passed(&k.writeDeadline) || k.stalls(stalled) {
			return k.opError("write", os.ErrDeadlineExceeded)
		}
		moved := false
		for len(pieces) > 0 {
			n, err := poll.SendAll(int(k.fd), pieces)
			if err == poll.ErrAgain { //nolint:errorlint // a bare errno
				break
			}
			if err != nil {
				return k.opError("write", os.NewSyscallError("sendmsg", err))
			}
			moved = moved || n > 0
			for len(pieces) > 0 && n >= len(pieces[0]) {
				n -= len(pieces[0])
				pieces = pieces[1:]
			}
			if len(pieces) > 0 {
				pieces[0] = pieces[0][n:]
			}
		}
		if len(pieces) == 0 {
			return nil
		}
		stalled = k.stallsAt(stalled, moved)
		if !k.wait(forOutput, waited, stalled) {
			return net.ErrClosed
		}
	}
}

// passed reports whether a deadline has.
func (k *sock) passed(deadline *instant) bool {
	if !k.bounded.Load() {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return *deadline != 0 && k.group().now() >= *deadline
}

// stallsAt is when a write that waits has waited too long for the client to take something; 0 is
// never. Before is what it was, and moved whether the client has taken something since.
func (k *sock) stallsAt(before instant, moved bool) instant {
	timeout := instant(k.runs.sendTimeout.Load())
	if timeout == 0 || before != 0 && !moved {
		return before
	}
	return k.group().now() + timeout
}

// stalls reports whether that is over.
func (k *sock) stalls(at instant) bool { return at != 0 && k.group().now() >= at }

// direction is what a call waits for.
type direction uint8

const (
	forInput direction = iota
	forOutput
)

// wait waits until the loop notes something on a side, the deadline changes or
// passes, or the sock is closed, when it reports false. On each side one may wait at a
// time: the mutexes of the body and of the response see to that. The first call of a Read or
// Write only makes sure that the loop knows where to ring and gives up the lead:
// what happened before that is found by trying once more. It waits no longer than until most, if
// that is not 0.
func (k *sock) wait(what direction, again bool, most instant) bool {
	k.mu.Lock()
	if k.sides == nil {
		k.sides = &sides{read: make(chan struct{}, 1), write: make(chan struct{}, 1)}
	}
	bell, until := k.sides.read, k.readDeadline
	if what == forOutput {
		bell, until = k.sides.write, k.writeDeadline
		if !k.sides.told {
			if k.home.shard.loop.AddOutput(int(k.fd), int(k.fd)) != nil { // nobody would ever ring
				k.mu.Unlock()
				return false
			}
			k.sides.told = true
		}
	}
	k.mu.Unlock()
	if most != 0 && (until == 0 || most < until) {
		until = most
	}
	if !again {
		k.runs.giveUpLead()
		return k.refs.Load() >= 0
	}
	var passed <-chan time.Time
	if until != 0 {
		t := time.NewTimer(time.Duration(until - k.group().now()))
		defer t.Stop()
		passed = t.C
	}
	select {
	case <-bell:
	case <-passed:
	}
	return k.refs.Load() >= 0
}

// ReadFrom implements io.ReaderFrom: the kernel copies what a file holds.
func (k *sock) ReadFrom(src io.Reader) (n int64, err error) {
	left := int64(1<<63 - 1)
	file, limited := src, (*io.LimitedReader)(nil)
	if l, ok := src.(*io.LimitedReader); ok {
		file, limited, left = l.R, l, l.N
	}
	f, ok := file.(*os.File)
	if !ok {
		return io.CopyBuffer(struct{ io.Writer }{k}, src, make([]byte, copySize))
	}
	k.runs.giveUpLead() // a cold file blocks
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	fallback := false
	rerr := raw.Control(func(fd uintptr) { n, fallback, err = k.sendfile(int(fd), left) })
	if err == nil {
		err = rerr
	}
	if limited != nil {
		limited.N -= n
	}
	if fallback {
		more, err := io.CopyBuffer(struct{ io.Writer }{k}, src, make([]byte, copySize))
		return n + more, err
	}
	return n, err
}

// sendfile sends up to left bytes of a file. unable says that this file cannot be
// sent so.
func (k *sock) sendfile(from int, left int64) (sent int64, unable bool, err error) {
	const most = 1 << 30 // a call's
	if !k.acquire() {
		return 0, false, net.ErrClosed
	}
	defer k.release()
	var stalled instant
	for waited := false; left > 0; {
		if k.passed(&k.writeDeadline) || k.stalls(stalled) {
			return sent, false, k.opError("sendfile", os.ErrDeadlineExceeded)
		}
		n, err := syscall.Sendfile(int(k.fd), from, nil, int(min(left, most)))
		switch {
		case n > 0:
			sent += int64(n)
			left -= int64(n)
			waited, stalled = false, 0
			continue
		case err == nil: // the file has ended
			return sent, false, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS):
			return sent, sent == 0, k.opErrorIf(sent > 0, "sendfile", err)
		case !errors.Is(err, syscall.EAGAIN):
			return sent, false, k.opError("sendfile", os.NewSyscallError("sendfile", err))
		}
		stalled = k.stallsAt(stalled, false)
		if !k.wait(forOutput, waited, stalled) {
			return sent, false, net.ErrClosed
		}
		waited = true
	}
	return sent, false, nil
}

func (k *sock) opErrorIf(cond bool, op string, err error) error {
	if !cond {
		return nil
	}
	return k.opError(op, err)
}

func (k *sock) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: k.home.plan.listener.Addr().Network(), Source: k.LocalAddr(), Addr: k.RemoteAddr(), Err: err}
}

// CloseWrite tells the client that nothing more comes.
func (k *sock) CloseWrite() error {
	if !k.acquire() {
		return net.ErrClosed
	}
	defer k.release()
	return poll.CloseWrite(int(k.fd))
}

// RemoteAddr implements net.Conn.
func (k *sock) RemoteAddr() net.Addr {
	if a, err := netip.ParseAddrPort(k.remote); err == nil {
		return net.TCPAddrFromAddrPort(a)
	}
	return &net.UnixAddr{Name: k.remote, Net: "unix"}
}

// LocalAddr implements net.Conn. After the connection has gone all it knows is the
// listener's.
func (k *sock) LocalAddr() net.Addr {
	a := k.home.plan.listener.Addr()
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() && k.acquire() {
		defer k.release()
		if sa, err := syscall.Getsockname(int(k.fd)); err == nil {
			if own, err := netip.ParseAddrPort(addrText(sa)); err == nil {
				return net.TCPAddrFromAddrPort(own)
			}
		}
	}
	return a
}

// addrText is the String of the net.Addr that package net would make of an address.
func addrText(sa syscall.Sockaddr) string {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)).String()
	case *syscall.SockaddrInet6:
		ip := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 {
			ip = ip.WithZone(zoneName(int(sa.ZoneId)))
		}
		return netip.AddrPortFrom(ip, uint16(sa.Port)).String()
	case *syscall.SockaddrUnix:
		return sa.Name
	}
	return ""
}

func zoneName(index int) string {
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return strconv.Itoa(index)
}

// SetDeadline implements net.Conn.
func (k *sock) SetDeadline(t time.Time) error {
	_ = k.SetReadDeadline(t)
	return k.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (k *sock) SetReadDeadline(t time.Time) error {
	k.setDeadline(&k.readDeadline, t, func(s *sides) chan struct{} { return s.read })
	return nil
}

// SetWriteDeadline implements net.Conn.
func (k *sock) SetWriteDeadline(t time.Time) error {
	k.setDeadline(&k.writeDeadline, t, func(s *sides) chan struct{} { return s.write })
	return nil
}

func (k *sock) setDeadline(deadline *instant, t time.Time, side func(*sides) chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*deadline = k.group().instant(t)
	k.bounded.Store(k.readDeadline != 0 || k.writeDeadline != 0)
	if k.sides != nil {
		ring(side(k.sides))
	}
}
