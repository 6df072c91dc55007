package load

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// tlsConn is the TLS layer of a connection. Package tls expects a blocking connection. The socket
// below returns a temporary error instead of blocking, after which a tls.Conn can still read. A
// handshake cannot continue after an error, so it runs as a coroutine of the worker and yields
// wherever it would block.
type tlsConn struct {
	conn *tls.Conn
	fd   int
	out  []byte // encrypted output not sent yet

	yield  func(struct{}) bool // suspends the handshake; nil without one
	resume func() (struct{}, bool)
	stop   func()
	err    error // result of the handshake
}

func newTLSConn(fd int, config *tls.Config) *tlsConn {
	t := &tlsConn{fd: fd}
	t.conn = tls.Client((*tlsSocket)(t), config)
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		t.err = t.conn.Handshake()
		t.yield = nil
	})
	return t
}

func (t *tlsConn) handshake() (over bool, err error) {
	if _, more := t.resume(); more {
		return false, nil
	}
	return true, t.err
}

// release stops a handshake in progress. The caller closes the descriptor.
func (t *tlsConn) release() { t.stop() }

// read returns decrypted input with poll.Recv's errors.
func (t *tlsConn) read(b []byte) (int, error) {
	n, err := t.conn.Read(b)
	switch {
	case n > 0:
		return n, nil // the next read returns an error, if any
	case errors.Is(err, wouldBlock{}):
		return 0, poll.ErrAgain
	case errors.Is(err, io.EOF):
		return 0, nil
	}
	return 0, err
}

// flush sends encrypted output. It returns poll.ErrAgain if the socket's buffer is full.
func (t *tlsConn) flush() error {
	for len(t.out) > 0 {
		n, err := poll.Send(t.fd, t.out)
		if err != nil {
			return err
		}
		t.out = t.out[n:]
	}
	t.out = nil
	return nil
}

// tlsSocket is the net.Conn below the TLS layer.
type tlsSocket tlsConn

// wouldBlock is the error of a read that would block. Package tls treats it as temporary.
type wouldBlock struct{}

func (wouldBlock) Error() string   { return "load: read would block" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

var errAbandoned = errors.New("the connection was closed during the handshake")

func (s *tlsSocket) Read(b []byte) (int, error) {
	for {
		n, err := poll.Recv(s.fd, b)
		switch {
		case err == poll.ErrAgain && s.yield == nil: //nolint:errorlint // a bare errno
			return 0, wouldBlock{}
		case err == poll.ErrAgain: //nolint:errorlint // a bare errno
			if !s.yield(struct{}{}) {
				return 0, errAbandoned
			}
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write accepts all of b and keeps what it cannot send for flush.
func (s *tlsSocket) Write(b []byte) (int, error) {
	sent := 0
	for len(s.out) == 0 && sent < len(b) {
		n, err := poll.Send(s.fd, b[sent:])
		if err == poll.ErrAgain { //nolint:errorlint // a bare errno
			break
		}
		if err != nil {
			return sent, err
		}
		sent += n
	}
	s.out = append(s.out, b[sent:]...)
	return len(b), nil
}

func (*tlsSocket) Close() error                     { return nil }
func (*tlsSocket) LocalAddr() net.Addr              { return nil }
func (*tlsSocket) RemoteAddr() net.Addr             { return nil }
func (*tlsSocket) SetDeadline(time.Time) error      { return nil }
func (*tlsSocket) SetReadDeadline(time.Time) error  { return nil }
func (*tlsSocket) SetWriteDeadline(time.Time) error { return nil }

func newTLSConfig(p *Plan, to *parsedURL) *tls.Config {
	config := &tls.Config{}
	if p.TLS != nil {
		config = p.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = to.name
	}
	if len(config.NextProtos) == 0 {
		config.NextProtos = p.Version.alpn()
	}
	return config
}

func (w *worker) continueHandshake(id int) {
	c := &w.conns[id]
	over, err := c.tls.handshake()
	if err == nil {
		err = w.ignoreBlocked(id, c.tls.flush())
	}
	if err == nil && over && w.plan.Version == HTTP2 {
		if agreed := c.tls.conn.ConnectionState().NegotiatedProtocol; agreed != "h2" {
			err = fmt.Errorf("the server does not support HTTP/2: it selected %q by ALPN", agreed)
		}
	}
	switch {
	case err != nil:
		w.cannotConnect(id, FailedConnect, "TLS: "+err.Error())
	case over:
		w.now = w.nanos()
		w.tally.Handshake.Record(time.Duration(w.now-c.connectStart) - c.connectTime)
		if w.tally.counting && c.tls.conn.ConnectionState().DidResume {
			w.tally.Resumed++
		}
		w.onReady(id)
	}
}

// ignoreBlocked replaces poll.ErrAgain by waiting until the socket is writable.
func (w *worker) ignoreBlocked(id int, err error) error {
	if err == poll.ErrAgain { //nolint:errorlint // a bare errno
		w.awaitWritable(id)
		return nil
	}
	return err
}

func (w *worker) flushTLS(id int) {
	c := &w.conns[id]
	var err error
	if n := len(c.out); n > 0 {
		if w.tally.counting {
			w.tally.SentBytes += uint64(n)
		}
		_, err = c.tls.conn.Write(c.out)
		c.out = nil
	}
	if err == nil {
		err = w.ignoreBlocked(id, c.tls.flush())
	}
	if err != nil {
		w.onError(id, FailedWrite, "write: "+err.Error())
	}
}
