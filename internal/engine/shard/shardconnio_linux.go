package shard

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poll"
)

// The methods of an exchange.Connection that may wait. They block their goroutine without holding
// up the loop.
var _ exchange.Connection = (*shardConn)(nil)

// Read receives input. p is not empty.
func (k *shardConn) Read(p []byte) (n int, err error) {
	if !k.acquire() {
		return 0, net.ErrClosed
	}
	defer k.release()
	return k.awaitInput(p, k.receive)
}

// awaitInput calls receive until there is input.
func (k *shardConn) awaitInput(p []byte, receive func([]byte) (int, error)) (n int, err error) {
	err = k.retry("read", waitInput, func() (moved bool, err error) {
		if k.tls != nil {
			k.tls.isDrained = false
		}
		n, err = receive(p)
		return false, err
	})
	return n, err
}

// retry calls f until it does not return poll.ErrAgain. When it does, retry waits for the loop's
// event, as long as the direction's deadline and the send timeout permit. moved reports whether the
// client has accepted something.
func (k *shardConn) retry(op string, what direction, f func() (moved bool, err error)) error {
	var stalled instant
	for waited := false; ; waited = true {
		if k.deadlinePassed(what) || stalled != 0 && k.group().now() >= stalled {
			return k.opError(op, os.ErrDeadlineExceeded)
		}
		moved, err := f()
		if err != poll.ErrAgain { //nolint:errorlint // a bare errno
			return err
		}
		if what == waitOutput {
			stalled = k.stallDeadline(stalled, moved)
		}
		if !k.wait(what, waited, stalled) {
			return net.ErrClosed
		}
	}
}

// SendPieces implements exchange.Connection. Only the goroutine that serves the connection calls it,
// and no other closes the connection meanwhile. Unlike Read, which a goroutine that outlives its
// handler may call, it need not acquire the descriptor. It changes the slices of pieces.
func (k *shardConn) SendPieces(pieces [][]byte, _ time.Duration) error {
	if k.tls != nil {
		return k.writeTLS(pieces)
	}
	return k.retry("write", waitOutput, func() (moved bool, err error) {
		for len(pieces) > 0 {
			n, err := poll.SendAll(int(k.fd), pieces)
			if err == poll.ErrAgain { //nolint:errorlint // a bare errno
				return moved, err
			}
			if err != nil {
				return moved, k.opError("write", os.NewSyscallError("send", err))
			}
			moved = true
			for len(pieces) > 0 && n >= len(pieces[0]) {
				n -= len(pieces[0])
				pieces = pieces[1:]
			}
			if len(pieces) > 0 {
				pieces[0] = pieces[0][n:]
			}
		}
		return true, nil
	})
}

func (k *shardConn) deadline(what direction) instant {
	if !k.state.has(flagDeadlines) {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deadlines[what]
}

func (k *shardConn) deadlinePassed(what direction) bool {
	at := k.deadline(what)
	return at != 0 && k.group().now() >= at
}

// stallDeadline returns when a waiting write times out because the client has accepted nothing; 0
// for never. before is the previous result. moved reports whether the client has accepted something
// since.
func (k *shardConn) stallDeadline(before instant, moved bool) instant {
	if k.conn == nil { // during a handshake, which has a deadline
		return 0
	}
	timeout := instant(k.conn.CurrentSendTimeout())
	if timeout == 0 || before != 0 && !moved {
		return before
	}
	return k.group().now() + timeout
}

// wait waits until the loop reports an event in a direction, or a deadline changes or passes. It
// reports false if no loop reports the connection. Only one goroutine may wait in each direction; the
// mutexes of the body and of the response ensure that. most, if not 0, limits the wait.
//
// The first call of a Read or Write only registers for the event and gives up the lead. Events that
// happened before are found by trying once more.
func (k *shardConn) wait(what direction, again bool, most instant) bool {
	k.mu.Lock()
	if k.addToLoopLocked() != nil {
		k.mu.Unlock()
		return false
	}
	if k.waiters == nil {
		k.waiters = &waiters{make(chan struct{}, 1), make(chan struct{}, 1)}
	}
	bell, until := k.waiters[what], k.deadlines[what]
	if what == waitOutput && !again && k.shard().loop.AddOutput(int(k.fd), int(k.fd), k.tag()) != nil {
		k.mu.Unlock()
		return false
	}
	k.mu.Unlock()
	if most != 0 && (until == 0 || most < until) {
		until = most
	}
	if !again {
		k.MayBlock()
		return true
	}
	if k.tls != nil && k.tls.handshake != nil {
		defer k.tls.handshake.pause(true)()
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
	return true
}

// CanSendFrom implements exchange.Connection. The kernel cannot encrypt what it copies. A file is
// then sent in the same records as the head of its response.
func (k *shardConn) CanSendFrom() bool { return k.tls == nil }

// SendFrom implements exchange.Connection: the kernel copies from a file.
func (k *shardConn) SendFrom(src *io.LimitedReader, _ time.Duration) (n int64, err error) {
	f, ok := src.R.(syscall.Conn)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	k.MayBlock() // reading a file that is not cached blocks
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	if raw.Control(func(fd uintptr) { n, err = k.sendfile(int(fd), src.N) }) != nil {
		return 0, errors.ErrUnsupported // reading a closed file fails
	}
	src.N -= n
	return n, err
}

// sendfile sends up to left bytes of a file. It returns errors.ErrUnsupported if the kernel cannot
// copy from it.
func (k *shardConn) sendfile(from int, left int64) (sent int64, err error) {
	const most = 1 << 30 // of one call
	if !k.acquire() {
		return 0, net.ErrClosed
	}
	defer k.release()
	err = k.retry("sendfile", waitOutput, func() (moved bool, err error) {
		for left > 0 {
			n, err := syscall.Sendfile(int(k.fd), from, nil, int(min(left, most)))
			switch {
			case n > 0:
				moved = true
				sent += int64(n)
				left -= int64(n)
				if k.deadlinePassed(waitOutput) { // a client that reads fast lets it never wait
					return moved, k.opError("sendfile", os.ErrDeadlineExceeded)
				}
			case err == nil: // the end of the file
				return moved, nil
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return moved, poll.ErrAgain
			case sent == 0 && (errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)):
				return false, errors.ErrUnsupported
			default:
				return moved, k.opError("sendfile", os.NewSyscallError("sendfile", err))
			}
		}
		return moved, nil
	})
	return sent, err
}

// CloseWrite shuts down the sending side. Over TLS it sends close_notify.
func (k *shardConn) CloseWrite() error { return k.endOutput(k.sendCiphertext) }

// endOutput is CloseWrite. It calls send if there is ciphertext to be sent.
func (k *shardConn) endOutput(send func() error) error {
	if !k.acquire() {
		return net.ErrClosed
	}
	defer k.release()
	if k.tls == nil {
		return poll.CloseWrite(int(k.fd))
	}
	if err := k.tls.conn.CloseWrite(); err != nil {
		return err
	}
	return send()
}

func (k *shardConn) SetDeadline(t time.Time) error {
	_ = k.SetReadDeadline(t)
	return k.SetWriteDeadline(t)
}

func (k *shardConn) SetReadDeadline(t time.Time) error {
	return k.setDeadline(waitInput, k.group().instant(t))
}

func (k *shardConn) SetWriteDeadline(t time.Time) error {
	return k.setDeadline(waitOutput, k.group().instant(t))
}

func (k *shardConn) setDeadline(what direction, deadline instant) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deadlines[what] = deadline
	k.state.set(flagDeadlines, k.deadlines != [2]instant{})
	if k.waiters != nil {
		exchange.Signal(k.waiters[what])
	}
	return nil
}

// Hijack implements exchange.Connection. The handler receives a connection of package net, with a
// descriptor of its own. If none can be made, nothing changes, and the loop still serves the
// connection.
func (k *shardConn) Hijack() (net.Conn, error) {
	if k.tls != nil { // the client decrypts records only in their order
		if err := k.sendCiphertext(); err != nil {
			return nil, err
		}
	}
	nc, err := k.duplicate()
	for range 2 { // FileConn duplicates the descriptor a second time
		if outOfDescriptors(err) {
			k.group().shed(false)
			nc, err = k.duplicate()
		}
	}
	if err != nil {
		return nil, err
	}
	if t := k.tls; t != nil {
		t.Conn, nc = nc, t.conn
		t.conn = nil
	}
	k.MayBlock()
	k.conn.ReleaseHijacked()
	_ = k.shard().loop.Remove(int(k.fd)) // fails if the loop does not have it
	_ = k.Close()                        // closes this descriptor; the handler has another
	return nc, nil
}

// duplicate makes a connection of package net from a duplicate of the descriptor. FileConn needs so
// much stack that the handler's goroutine would keep 8 KB in place of 4 KB.
func (k *shardConn) duplicate() (nc net.Conn, err error) {
	fd, err := poll.Dup(int(k.fd))
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	var other sync.WaitGroup
	other.Go(func() {
		f := os.NewFile(uintptr(fd), "")
		defer f.Close()
		nc, err = net.FileConn(f) // which makes another duplicate
	})
	other.Wait()
	return nc, err
}

// Send implements exchange.Connection. retry reads the timeout itself. The last response and the
// end of the connection leave in one segment.
func (k *shardConn) Send(p []byte, _ time.Duration) error {
	if k.endsOutput && k.tls == nil {
		if p = p[k.trySendOut(p):]; len(p) == 0 {
			return nil
		}
	}
	pieces := [1][]byte{p}
	return k.SendPieces(pieces[:], 0)
}

// setWaitDeadline sets the deadline of the wait that is about to begin; 0 is no limit. The group's
// sweeper enforces it.
func (k *shardConn) setWaitDeadline(deadline instant) {
	if deadline != 0 || k.state.has(flagDeadlines) {
		_ = k.setDeadline(waitInput, deadline)
	}
}

// TrySend implements exchange.Sender. Over TLS it encrypts all of b, of which the next response sends
// what there is no room for.
func (k *shardConn) TrySend(b []byte) int {
	if !k.acquire() {
		return 0
	}
	defer k.release()
	if k.tls == nil {
		n, _ := poll.Send(int(k.fd), b) // the owner's next write fails with the same error
		return n
	}
	n, err := k.tls.conn.Write(b)
	if err == nil {
		_, _ = k.tls.ciphertext.send(k)
	}
	return n
}
