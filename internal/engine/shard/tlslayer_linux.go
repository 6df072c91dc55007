package shard

import (
	"cmp"
	"crypto/tls"
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

// tlsLayer is the TLS layer of a shardConn, and the net.Conn beneath its tls.Conn. After the
// handshake no goroutine and no buffer belong to it, except those in which the tls.Conn keeps
// received records.
type tlsLayer struct {
	net.Conn                       // a recordTransport, or after Hijack a connection of package net
	conn      *tls.Conn            // nil after Hijack, and once the connection is closed
	handshake *handshake           // while it runs
	state     *tls.ConnectionState // valid once the handshake is complete, like secured
	secured   instant              // when the handshake ended
	below     *shardConn

	isDrained bool // the last call has received all that had arrived
	hasInput  bool // something was decrypted since attachTLS

	watching   sync.Mutex // held while the event of a watched exchange is examined
	early      byte       // received while an exchange was watched; valid if hasEarly
	hasEarly   bool
	ciphertext ciphertext
}

const (
	// maxPlaintext is how much is encrypted before the ciphertext may be sent: a record.
	maxPlaintext = 16 << 10
	// sendCiphertext is how much is encrypted before a system call sends it if there is more.
	sendCiphertext = 3 * maxPlaintext
	// maxCiphertext limits what waits to be sent. Only a client that accepts nothing, and makes
	// the server respond to TLS messages, causes more.
	maxCiphertext = 1 << 20
	// keptCiphertext is the size of the largest buffer that is reused.
	keptCiphertext = 80 << 10
)

var errCiphertextLimit = errors.New("engine: the client does not accept the TLS messages that it causes")

// recordTransport never blocks once the handshake is complete. It ignores the deadlines that
// package tls sets: the shardConn has its own.
type recordTransport struct{ *shardConn }

func (recordTransport) SetDeadline(time.Time) error      { return nil }
func (recordTransport) SetReadDeadline(time.Time) error  { return nil }
func (recordTransport) SetWriteDeadline(time.Time) error { return nil }

// Read returns a temporary error if nothing has arrived. A tls.Conn keeps a partial record after
// such an error, and continues with it.
func (k recordTransport) Read(p []byte) (int, error) {
	t := k.tls
	if h := t.handshake; h != nil {
		return h.read(p)
	}
	if t.isDrained {
		return 0, os.ErrDeadlineExceeded // which a tls.Conn treats as temporary
	}
	n, err := k.recv(p)
	switch {
	case err == poll.ErrAgain: //nolint:errorlint // a bare errno
		t.isDrained = true
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, err
	}
	// As in receiveMore: the loop reports input that arrives later.
	t.isDrained = n < len(p) && !k.state.has(flagEnded)
	return n, nil
}

// Write always succeeds and collects the ciphertext, so that one system call sends all records of a
// response. The shardConn sends it, and waits if the socket has no room.
func (k recordTransport) Write(p []byte) (int, error) {
	if err := k.tls.ciphertext.append(p, &k.group().ciphertexts); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close ends a handshake. The shardConn closes the descriptor, after it has sent what Close of the
// tls.Conn has written.
func (k recordTransport) Close() error {
	if k.tls.handshake != nil {
		k.shutdown()
	}
	return nil
}

// SyscallConn implements syscall.Conn for the owner of a connection that was hijacked.
func (t *tlsLayer) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := t.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// receive returns decrypted input, or poll.ErrAgain if there is none.
func (t *tlsLayer) receive(p []byte) (int, error) {
	n, err := t.conn.Read(p)
	_, _ = t.ciphertext.send(t.below) // the response to a KeyUpdate, or an alert
	switch {
	case n > 0:
		t.hasInput = true
		return n, nil // the next call returns an error, if any
	case err == os.ErrDeadlineExceeded: //nolint:errorlint // a tls.Conn returns it unwrapped
		return 0, poll.ErrAgain
	}
	return 0, err
}

// clientLeft reports whether the client of a watched exchange has ended its output. It consumes at
// most a byte, the first of the next request. After that it detects nothing, as on the goroutine
// path.
func (t *tlsLayer) clientLeft(x *exchange.Exchange) bool {
	t.watching.Lock()
	defer t.watching.Unlock()
	if t.hasEarly || t.below.watchedExchange.Load() != x {
		return false
	}
	t.isDrained = false
	var b [1]byte
	n, err := t.receive(b[:])
	t.early, t.hasEarly = b[0], n > 0
	return err != nil && err != poll.ErrAgain //nolint:errorlint // a bare errno
}

// endWatch appends the input of clientLeft to the conn's.
func (t *tlsLayer) endWatch(c *exchange.Conn) {
	t.watching.Lock()
	defer t.watching.Unlock()
	if t.hasEarly {
		t.hasEarly = false
		c.Room()[0] = t.early
		c.Received(1)
	}
}

// end sends what remains to be sent, and close_notify, without waiting. Then it drops everything: a
// Request that a program keeps refers to the shardConn.
func (t *tlsLayer) end() {
	if t.conn == nil {
		return
	}
	// Input left unread would make the kernel send a reset, and the client would lose what it has
	// not received yet.
	poll.Discard(int(t.below.fd))
	_ = t.conn.Close()
	_, _ = t.ciphertext.send(t.below)
	t.conn = nil
	t.ciphertext.release(&t.below.group().ciphertexts) // nothing else uses it any more
}

// Methods of a shardConn for TLS.

// writeTLS is SendPieces.
func (k *shardConn) writeTLS(pieces [][]byte) error {
	for _, p := range pieces {
		for len(p) > 0 {
			n, err := k.tls.conn.Write(p[:min(len(p), sendCiphertext)])
			if p = p[n:]; err == nil && len(p) > 0 {
				err = k.sendCiphertext()
			}
			if err != nil {
				return err
			}
		}
	}
	return k.sendCiphertext()
}

// sendCiphertext sends all ciphertext, and waits for room if necessary.
func (k *shardConn) sendCiphertext() error {
	c := &k.tls.ciphertext
	err := k.retry("write", waitOutput, func() (moved bool, err error) { return c.send(k) })
	if err != nil { // all later writes fail, too
		c.mu.Lock()
		c.err = cmp.Or(c.err, err)
		c.mu.Unlock()
	}
	return err
}

// receive returns input, or poll.ErrAgain if there is none.
func (k *shardConn) receive(p []byte) (int, error) {
	if k.tls != nil {
		return k.tls.receive(p)
	}
	return k.recv(p)
}

// recv is receive from the socket.
func (k *shardConn) recv(p []byte) (int, error) {
	n, err := poll.Recv(int(k.fd), p)
	switch {
	case err == poll.ErrAgain: //nolint:errorlint // a bare errno
	case err != nil:
		err = k.opError("read", os.NewSyscallError("recv", err))
	case n == 0:
		err = io.EOF
	}
	return n, err
}

// attachTLS prepares for reading what has arrived since the last time. It returns what handlers
// receive as Request.TLS, nil without TLS.
func (k *shardConn) attachTLS() *tls.ConnectionState {
	if k.tls == nil {
		return nil
	}
	k.tls.isDrained, k.tls.hasInput = false, false
	return k.tls.state
}

// ciphertext is encrypted output that has not been sent.
type ciphertext struct {
	mu     sync.Mutex
	buffer *ciphertextBuffer // nil if nothing waits
	sent   int               // bytes of it that were sent
	err    error             // of a send; nothing more is sent then
}

// ciphertextBuffer wraps a slice, so that the group's sync.Pool stores a pointer.
type ciphertextBuffer struct{ b []byte }

func (c *ciphertext) append(p []byte, pool *sync.Pool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if c.buffer == nil {
		if c.buffer, _ = pool.Get().(*ciphertextBuffer); c.buffer == nil {
			c.buffer = new(ciphertextBuffer)
		}
	}
	if len(c.buffer.b)-c.sent > maxCiphertext {
		return errCiphertextLimit
	}
	c.buffer.b = append(c.buffer.b, p...)
	return nil
}

// send sends what k's socket has room for. It returns poll.ErrAgain if something still waits. moved
// reports whether the socket has accepted anything.
func (c *ciphertext) send(k *shardConn) (moved bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.buffer != nil && c.sent < len(c.buffer.b) {
		n, err := poll.Send(int(k.fd), c.buffer.b[c.sent:])
		if err == poll.ErrAgain { //nolint:errorlint // a bare errno
			return moved, err
		}
		if err != nil {
			c.err = k.opError("write", os.NewSyscallError("send", err))
		}
		c.sent += n
		moved = true
	}
	c.release(&k.group().ciphertexts)
	return moved, c.err
}

// release returns the buffer to the pool.
func (c *ciphertext) release(pool *sync.Pool) {
	if c.buffer != nil && cap(c.buffer.b) <= keptCiphertext {
		c.buffer.b = c.buffer.b[:0]
		pool.Put(c.buffer)
	}
	c.buffer, c.sent = nil, 0
}
