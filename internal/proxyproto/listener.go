// Package proxyproto removes the header of the PROXY protocol, version 1 or 2, from the beginning of connections. It does not decide
// whether a proxy is trusted: addresses of connections remain those of the sockets.
package proxyproto

import (
	"errors"
	"io"
	"net"
)

// Listener accepts connections that begin with a header.
type Listener struct {
	net.Listener
	// Broken is called for each connection without a valid header. It may be nil.
	Broken func(remote net.Addr, err error)
}

// Accept implements net.Listener. It does not wait for the header.
func (l Listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: nc, broken: l.Broken}, nil
}

// Conn is a connection that begins with a header, which the first Read removes. The caller's deadline bounds the time for it, too.
type Conn struct {
	net.Conn
	Header Header // valid once a Read has returned data

	broken func(net.Addr, error)
	done   bool // with the header
	err    error
	rest   []byte // received and not read: until done, the header's beginning
}

// Read implements net.Conn. If the header is malformed it returns an error, each time.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for !c.done {
		if err := c.receive(); err != nil {
			return 0, err
		}
	}
	if len(c.rest) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.rest = nil
	}
	return n, nil
}

// receive reads once, and looks whether the header is complete.
func (c *Conn) receive() error {
	if c.err != nil {
		return c.err
	}
	const usual = 256 // bytes of a header with the client's first
	if len(c.rest) == cap(c.rest) {
		c.rest = append(make([]byte, 0, max(usual, 2*len(c.rest))), c.rest...)
	}
	n, err := c.Conn.Read(c.rest[len(c.rest):cap(c.rest)])
	c.rest = c.rest[:len(c.rest)+n]
	if n > 0 {
		h, size, bad := parse(c.rest)
		if bad != nil {
			return c.fail(bad)
		}
		if size > 0 {
			c.Header, c.rest, c.done = h, c.rest[size:], true
			return nil
		}
	}
	if errors.Is(err, io.EOF) && len(c.rest) > 0 {
		return c.fail(io.ErrUnexpectedEOF)
	}
	return err
}

func (c *Conn) fail(err error) error {
	if c.err = err; c.broken != nil {
		c.broken(c.RemoteAddr(), err)
	}
	return err
}

// CloseWrite ends the output, if the connection can.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
