package client

import (
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// origin is what a Client keeps with a connection.
type origin struct {
	tls   *tls.ConnectionState // of TLS with the server, else nil
	conn  *tls.Conn            // with the server or a proxy, else nil
	below *below               // what the lowest TLS reads from; nil if somebody else made that
	talk  *talk                // of a plain socket, else nil
}

// originOf is what is kept with a connection that has TLS, perhaps over TLS with a proxy.
func originOf(tc *tls.Conn, state *tls.ConnectionState) origin {
	o := origin{tls: state, conn: tc}
	for over := tc; over != nil; {
		o.below, _ = over.NetConn().(*below)
		if over = nil; o.below != nil {
			over, _ = o.below.Conn.(*tls.Conn)
		}
	}
	return o
}

// below is a connection below TLS.
type below struct {
	net.Conn
	dry bool // there is nothing to be read
}

// errDry is an error that passes, as package tls understands that.
type errDry struct{}

func (errDry) Error() string   { return "client: BUG: nobody reads here" }
func (errDry) Timeout() bool   { return true }
func (errDry) Temporary() bool { return true }

func (b *below) Read(p []byte) (int, error) {
	if b.dry {
		return 0, errDry{}
	}
	return b.Conn.Read(p)
}

// NetConn returns the connection whose socket this is.
func (b *below) NetConn() net.Conn { return b.Conn }

// isDry reports whether nothing is left in the connection above its socket: TLS receives more than
// it is asked for, and what a server says unasked may come with its response. All TLS that there is
// is asked, down to the lowest.
func (o *origin) isDry() bool {
	if o.conn == nil {
		return true
	}
	if o.below != nil {
		o.below.dry = true
		defer func() { o.below.dry = false }()
	} else {
		if o.conn.SetReadDeadline(time.Unix(1, 0)) != nil {
			return false
		}
		defer func() { _ = o.conn.SetReadDeadline(time.Time{}) }()
	}
	var b [1]byte
	n, err := o.conn.Read(b[:])
	var late net.Error
	return n == 0 && errors.As(err, &late) && late.Timeout()
}
