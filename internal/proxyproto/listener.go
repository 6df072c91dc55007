// Package proxyproto removes the PROXY protocol header, version 1 or 2, from the start of
// connections. It does not decide whether a proxy is trusted: RemoteAddr and LocalAddr remain those
// of the socket.
package proxyproto

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// Listener accepts connections that start with a PROXY protocol header.
type Listener struct {
	net.Listener
	// Broken, if not nil, is called for each connection without a valid header.
	Broken func(remote net.Addr, err error)
	// Context, if not nil, returns the context of a connection, which is derived from ctx. Its
	// Header may not have been read yet.
	Context func(ctx context.Context, c *Conn) context.Context
}

// Accept implements net.Listener. It does not wait for the header.
func (l Listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: nc, listener: &l}, nil
}

// Conn is a connection that starts with a header, which the first Read removes. A read deadline
// also limits reading the header.
type Conn struct {
	net.Conn
	Header Header // valid after a Read has returned data

	listener *Listener
	done     bool // the header is complete
	err      error
	unread   []byte // received and not yet returned; until done, the start of the header
}

// Socket implements connection.AboveSocket. If it cannot read the header without what follows, it
// returns c, whose Read removes the header.
func (c *Conn) Socket(ctx context.Context, deadline time.Time) (net.Conn, context.Context, error) {
	if c.listener.Context != nil {
		ctx = c.listener.Context(ctx, c)
	}
	err := c.readHeader(deadline)
	if c.done {
		return c.Conn, ctx, err
	}
	return c, ctx, err
}

// Read implements net.Conn. If the header is malformed, every call returns an error.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for !c.done {
		if err := c.receive(); err != nil {
			return 0, err
		}
	}
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	if c.unread = c.unread[n:]; len(c.unread) == 0 {
		c.unread = nil
	}
	return n, nil
}

// receive reads once, and parses the header if it is complete.
func (c *Conn) receive() error {
	if c.err != nil {
		return c.err
	}
	const usual = 256 // enough for most headers and the client's first bytes
	if len(c.unread) == cap(c.unread) {
		c.unread = append(make([]byte, 0, max(usual, 2*len(c.unread))), c.unread...)
	}
	n, err := c.Conn.Read(c.unread[len(c.unread):cap(c.unread)])
	c.unread = c.unread[:len(c.unread)+n]
	if n > 0 {
		h, size, bad := parse(c.unread)
		if bad != nil {
			return c.fail(bad)
		}
		if size > 0 {
			c.Header, c.unread, c.done = h, c.unread[size:], true
			return nil
		}
	}
	if errors.Is(err, io.EOF) && len(c.unread) > 0 {
		return c.fail(io.ErrUnexpectedEOF)
	}
	return err
}

func (c *Conn) fail(err error) error {
	if c.err = err; c.listener.Broken != nil {
		c.listener.Broken(c.RemoteAddr(), err)
	}
	return err
}

// CloseWrite shuts down the sending side, if the connection can.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
