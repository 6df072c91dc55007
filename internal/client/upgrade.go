package client

import (
	"errors"
	"io"
	"net"
	"net/http"
)

// takesOver reports whether the connection is the caller's after this head: another protocol was
// asked for and granted, or a tunnel.
func (x *slab) takesOver() bool {
	status := x.scratch.head.Status
	if x.request.Method == http.MethodConnect {
		return status >= 200 && status < 300 // RFC 9110, 9.3.6
	}
	return status == http.StatusSwitchingProtocols && first(x.request.Header["Upgrade"]) != "" && hasToken(x.request.Header["Connection"], "upgrade")
}

// takeOver takes the connection out of the exchange.
func (x *slab) takeOver() io.ReadCloser {
	rest := append([]byte(nil), x.scratch.in[x.from:x.to]...)
	u := &upgraded{conn: x.conn, rest: rest}
	x.mu.Lock()
	ended := x.over
	x.over = true
	x.watch.Stop(x.ctx, &x.exchange)
	if x.hurry != nil {
		x.hurry.Stop()
	}
	x.mu.Unlock()
	x.release()
	if !ended {
		x.conn.Detach()
	}
	return u
}

// upgraded is a connection that has become the caller's: the body of a response that switches
// protocols. It is an io.ReadWriteCloser.
type upgraded struct {
	conn *conn
	rest []byte // what came behind the head
}

var _ io.ReadWriteCloser = (*upgraded)(nil)

func (u *upgraded) Read(p []byte) (int, error) {
	if len(u.rest) > 0 {
		n := copy(p, u.rest)
		u.rest = u.rest[n:]
		return n, nil
	}
	return u.conn.Read(p)
}

func (u *upgraded) Write(p []byte) (int, error) { return u.conn.Write(p) }

// Close implements io.Closer.
func (u *upgraded) Close() error { return u.conn.Close() }

// CloseWrite tells the other side that nothing more comes.
func (u *upgraded) CloseWrite() error {
	if half, ok := u.conn.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

var _ net.Conn = (*conn)(nil)
