package client

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// connInfo is what exchanges know about a connection.
type connInfo struct {
	tlsState *tls.ConnectionState // of TLS with the server, else nil
	tlsConn  *tls.Conn            // with the server or a proxy, else nil
	// the connection below the lowest TLS layer; nil if another package made that layer
	lowest *underTLS
	raw    *rawExchange // of a TCP or unix socket without TLS, else nil
}

// connInfoOf returns the connInfo of a TLS connection, which may run over TLS to a proxy.
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

// underTLS is the connection below a TLS layer.
type underTLS struct {
	net.Conn
	isBlocked bool // Read fails
}

func (b *underTLS) Read(p []byte) (int, error) {
	if b.isBlocked {
		return 0, os.ErrDeadlineExceeded // which is temporary for package tls: the TLS connection stays usable
	}
	return b.Conn.Read(p)
}

// NetConn returns the connection below.
func (b *underTLS) NetConn() net.Conn { return b.Conn }

// isDrained reports whether the TLS layers hold no unread bytes. TLS may receive more than its
// reader requested, and unrequested bytes may follow a response. With reads from the socket
// blocked, a Read through all layers must time out.
func (o *connInfo) isDrained() bool {
	if o.tlsConn == nil {
		return true
	}
	var b [1]byte
	n, isDrained := o.readUnread(b[:])
	return n == 0 && isDrained
}

// readUnread reads bytes that the TLS layers hold. isDrained reports that they held none.
func (o *connInfo) readUnread(p []byte) (n int, isDrained bool) {
	if o.lowest != nil {
		o.lowest.isBlocked = true
		defer func() { o.lowest.isBlocked = false }()
	} else {
		if o.tlsConn.SetReadDeadline(time.Unix(1, 0)) != nil {
			return 0, false
		}
		defer func() { _ = o.tlsConn.SetReadDeadline(time.Time{}) }()
	}
	n, err := o.tlsConn.Read(p)
	var late net.Error
	return n, errors.As(err, &late) && late.Timeout()
}
