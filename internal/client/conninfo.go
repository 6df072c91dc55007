package client

import (
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// origin is what a Client keeps with a connection.
type connInfo struct {
	tlsState *tls.ConnectionState // of TLS with the server, else nil
	tlsConn  *tls.Conn            // with the server or a proxy, else nil
	lowest   *underTLS            // what the lowest TLS reads from; nil if somebody else made that
	raw      *rawExchange         // of a plain socket, else nil
}

// originOf is what is kept with a connection that has TLS, perhaps over TLS with a proxy.
func connInfoOf(tc *tls.Conn, state *tls.ConnectionState) connInfo {
	o := connInfo{tlsState: state, tlsConn: tc}
	for over := tc; over != nil; {
		o.lowest, _ = over.NetConn().(*underTLS)
		if over = nil; o.lowest != nil {
			over, _ = o.lowest.Conn.(*tls.Conn)
		}
	}
	return o
}

// below is a connection below TLS.
type underTLS struct {
	net.Conn
	isBlocked bool // there is nothing to be read
}

// errDry is an error that passes, as package tls understands that.
type errWouldBlock struct{}

func (errWouldBlock) Error() string   { return "client: BUG: nobody reads here" }
func (errWouldBlock) Timeout() bool   { return true }
func (errWouldBlock) Temporary() bool { return true }

func (b *underTLS) Read(p []byte) (int, error) {
	if b.isBlocked {
		return 0, errWouldBlock{}
	}
	return b.Conn.Read(p)
}

// NetConn returns the connection whose socket this is.
func (b *underTLS) NetConn() net.Conn { return b.Conn }

// isDry reports whether nothing is left in the connection above its socket: TLS receives more than
// it is asked for, and what a server says unasked may come with its response. All TLS that there is
// is asked, down to the lowest.
func (o *connInfo) isDrained() bool {
	if o.tlsConn == nil {
		return true
	}
	if o.lowest != nil {
		o.lowest.isBlocked = true
		defer func() { o.lowest.isBlocked = false }()
	} else {
		if o.tlsConn.SetReadDeadline(time.Unix(1, 0)) != nil {
			return false
		}
		defer func() { _ = o.tlsConn.SetReadDeadline(time.Time{}) }()
	}
	var b [1]byte
	n, err := o.tlsConn.Read(b[:])
	var late net.Error
	return n == 0 && errors.As(err, &late) && late.Timeout()
}
