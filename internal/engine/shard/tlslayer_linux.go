package shard

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poll"
)

// tlsLayer is the TLS layer of a shardConn. It is also the net.Conn beneath its tls.Conn: the
// record transport, which never blocks once the handshake is complete.
//
//   - Read returns a temporary error if nothing has arrived. A tls.Conn keeps a partial record
//     after such an error, and continues with it.
//   - Write always succeeds and collects the ciphertext, so that one system call sends all records
//     of a response. The shardConn sends it, and waits if the socket has no room.
//
// Its states:
//
//	hello awaited ──ClientHello──▶ handshake ──▶ established ──take──▶ taken
//
// Until the ClientHello has arrived, and again after the handshake, no goroutine and no buffer
// belong to the layer, except those in which the tls.Conn keeps received records. After take,
// the layer passes all calls to a connection of package net, which may block.
type tlsLayer struct {
	net.Conn                                      // below, or after take its successor: addresses and deadlines
	conn      *tls.Conn                           // nil until the handshake begins
	state     atomic.Pointer[tls.ConnectionState] // nil until the handshake is complete
	handshake *handshake                          // while it runs
	below     *shardConn
	secured   instant // when the handshake ended; valid once state is not nil
	isTaken   bool    // another owner has the tls.Conn

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

func (t *tlsLayer) Read(p []byte) (int, error) {
	if t.isTaken {
		return t.Conn.Read(p)
	}
	if h := t.handshake; h != nil {
		return h.read(p)
	}
	if t.isDrained {
		return 0, os.ErrDeadlineExceeded // which a tls.Conn treats as temporary
	}
	n, err := t.below.recv(p)
	switch {
	case err == poll.ErrAgain: //nolint:errorlint // a bare errno
		t.isDrained = true
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, err
	}
	// As in receiveMore: the loop reports input that arrives later.
	t.isDrained = n < len(p) && !t.below.state.has(flagEnded)
	return n, nil
}

func (t *tlsLayer) Write(p []byte) (int, error) {
	if t.isTaken {
		return t.Conn.Write(p)
	}
	if err := t.ciphertext.append(p, &t.below.group().ciphertexts); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements net.Conn. The shardConn closes the descriptor, after it has sent what Close of
// the tls.Conn has written.
func (t *tlsLayer) Close() error {
	switch {
	case t.isTaken:
		return t.Conn.Close()
	case t.handshake != nil:
		t.below.shutdown()
	}
	return nil
}

// timeless ignores the deadlines that package tls sets: the shardConn has its own.
type timeless struct{ *shardConn }

func (timeless) SetDeadline(time.Time) error      { return nil }
func (timeless) SetReadDeadline(time.Time) error  { return nil }
func (timeless) SetWriteDeadline(time.Time) error { return nil }

// SyscallConn implements syscall.Conn for the owner of a connection that was taken.
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
	if t.isTaken {
		t.conn = nil
		return
	}
	if t.conn != nil {
		// Input left unread would make the kernel send a reset, and the client would lose what it
		// has not received yet.
		poll.Discard(int(t.below.fd))
		_ = t.conn.Close()
		_, _ = t.ciphertext.send(t.below)
		t.conn = nil
	}
	t.ciphertext.discard(&t.below.group().ciphertexts)
}

// Methods of a shardConn for TLS.

// writeTLS is SendPieces.
func (k *shardConn) writeTLS(pieces [][]byte) error {
	waiting := 0
	for _, p := range pieces {
		for len(p) > 0 {
			n, err := k.tls.conn.Write(p[:min(len(p), maxPlaintext)])
			if err != nil {
				return err
			}
			p = p[n:]
			if waiting += n; len(p) > 0 && waiting >= sendCiphertext {
				if err := k.sendCiphertext(); err != nil {
					return err
				}
				waiting = 0
			}
		}
	}
	return k.sendCiphertext()
}

// sendCiphertext sends all ciphertext, and waits for room if necessary.
func (k *shardConn) sendCiphertext() error {
	c := &k.tls.ciphertext
	err := k.retry("write", waitOutput, func() (moved bool, err error) { return c.send(k) })
	if err != nil {
		c.fail(err)
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
	return k.tls.state.Load()
}

func (k *shardConn) awaitsTLS() bool { return k.tls != nil && k.tls.state.Load() == nil }

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

// fail makes all later writes fail.
func (c *ciphertext) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

func (c *ciphertext) discard(pool *sync.Pool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(pool)
}

// release returns the buffer to the pool. Its caller holds mu.
func (c *ciphertext) release(pool *sync.Pool) {
	if c.buffer != nil && cap(c.buffer.b) <= keptCiphertext {
		c.buffer.b = c.buffer.b[:0]
		pool.Put(c.buffer)
	}
	c.buffer, c.sent = nil, 0
}
