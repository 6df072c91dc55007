package client

import (
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// origin is what a Client keeps with a connection.
type origin struct {
	tls   *tls.ConnectionState // nil without
	conn  *tls.Conn            // likewise
	below *below               // what that reads from; nil if somebody else made it
	talk  *talk                // of a plain socket, else nil
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
// it is asked for, and what a server says unasked may come with its response.
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
