package client

import (
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/wire/http1"
)

// switchesProtocol reports whether the connection belongs to the caller after a head with this
// status: because the server accepted an Upgrade, or opened a tunnel.
func (x *exchange) switchesProtocol(status int) bool {
	if x.request.Method == http.MethodConnect {
		return status >= 200 && status < 300 // RFC 9110, 9.3.6
	}
	return status == http.StatusSwitchingProtocols && firstValue(x.request.Header["Upgrade"]) != "" &&
		http1.HasToken(x.request.Header["Connection"], "upgrade")
}

// detachConn detaches the connection from the exchange, and returns it as a response's body.
func (x *slab) detachConn() io.ReadCloser {
	buffered := append([]byte(nil), x.scratch.received()...)
	u := &upgradedConn{conn: x.conn, direct: x.conn, buffered: buffered}
	if raw := x.conn.raw; raw != nil {
		u.direct = raw.direct()
	}
	x.mu.Lock()
	hasEnded := x.ended
	if x.ended = true; !hasEnded {
		x.reportEnd(len(buffered))
	}
	x.contextWatch.stop(x.ctx, &x.exchange)
	if x.bodyTimer != nil {
		x.bodyTimer.Stop()
	}
	x.mu.Unlock()
	x.release()
	if !hasEnded {
		x.conn.host.pool.release(x.conn, false) // it belongs to the caller
	}
	return u
}

// upgradedConn is the body of a response that switches protocols: an io.ReadWriteCloser on the
// connection, which belongs to the caller.
type upgradedConn struct {
	conn     *conn
	direct   net.Conn // a directConn, or conn
	buffered []byte   // bytes received behind the head
}

func (u *upgradedConn) Read(p []byte) (int, error) {
	if len(u.buffered) > 0 {
		n := copy(p, u.buffered)
		u.buffered = u.buffered[n:]
		return n, nil
	}
	return u.direct.Read(p)
}

// AwaitInput implements connection.InputAwaiter.
func (u *upgradedConn) AwaitInput() {
	if awaiter, ok := u.direct.(connection.InputAwaiter); ok && len(u.buffered) == 0 {
		awaiter.AwaitInput()
	}
}

func (u *upgradedConn) Write(p []byte) (int, error) { return u.direct.Write(p) }

// Close implements io.Closer.
func (u *upgradedConn) Close() error { return u.conn.Close() }

// CloseWrite closes the sending direction of the connection.
func (u *upgradedConn) CloseWrite() error {
	if half, ok := u.conn.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
