package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/tarehq/tare/front/internal/listenaddr"
	"github.com/tarehq/tare/front/nginxconf"
)

// sharedSocket accepts connections for the servers of several addresses, each of which has settings
// of its own, such as TLS. As in nginx, the kernel's socket is the one of all addresses of a port,
// because it cannot have one for a single address besides it. The local address of a connection
// decides which server receives it.
type sharedSocket struct {
	base  net.Listener
	all   []*addressListener
	at    listenaddr.Table[addressListener]
	ended chan struct{} // closed when no more connections follow
}

// addressListener is the listener of one address. Close closes the socket. Close of the socket ends
// the listeners, but only after they have returned the connections that were accepted before.
type addressListener struct {
	socket    *sharedSocket
	isProxied bool // its connections begin with a header of the PROXY protocol
	accepted  chan acceptedConn
	unused    chan struct{} // closed by Close
	once      sync.Once
}

type acceptedConn struct {
	conn net.Conn
	err  error
}

// split returns a listener for each address that a socket accepts for. The first is the socket's
// own.
func split(l net.Listener, addresses []nginxconf.Listener) []net.Listener {
	if len(addresses) == 1 {
		return []net.Listener{l}
	}
	s := &sharedSocket{base: l, ended: make(chan struct{})}
	var all []net.Listener
	for i := range addresses {
		a := &addressListener{socket: s, isProxied: addresses[i].Proxied, accepted: make(chan acceptedConn),
			unused: make(chan struct{})}
		s.all, all = append(s.all, a), append(all, a)
		if s.at.Any == nil {
			s.at.Any = a // of the socket's own address
		} else {
			_ = s.at.Add(addresses[i].Addr, a) // front.New has checked the address
		}
	}
	go s.accept()
	return all
}

// accept accepts connections until the socket is closed. Every address receives an error: its
// servers close idle connections if descriptors have run out, and wait before they accept again.
// accept waits, too.
func (s *sharedSocket) accept() {
	defer close(s.ended)
	for {
		nc, err := s.base.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			for _, a := range s.all {
				a.receive(acceptedConn{err: err})
			}
		case !s.at.GroupAt(nc.LocalAddr()).receive(acceptedConn{conn: nc}):
			nc.Close()
		}
	}
}

// receive turns a result into that of Accept. It returns false if the listener was closed.
func (a *addressListener) receive(c acceptedConn) bool {
	select {
	case a.accepted <- c:
		return true
	case <-a.unused:
		return false
	}
}

// Accept implements net.Listener.
func (a *addressListener) Accept() (net.Conn, error) {
	select {
	case c := <-a.accepted:
		if c.err != nil || a.isProxied {
			return c.conn, c.err
		}
		return plainConn{c.conn}, nil
	case <-a.unused:
	case <-a.socket.ended:
	}
	return nil, net.ErrClosed
}

func (a *addressListener) Close() (err error) {
	a.once.Do(func() {
		close(a.unused)
		err = a.socket.base.Close()
	})
	if errors.Is(err, net.ErrClosed) {
		return nil // by the listener of another address
	}
	return err
}

// Addr implements net.Listener.
func (a *addressListener) Addr() net.Addr { return a.socket.base.Addr() }

// plainConn permits the event loops to serve a connection.
type plainConn struct{ net.Conn }

// Socket implements connection.AboveSocket.
func (c plainConn) Socket(ctx context.Context, _ time.Time) (net.Conn, context.Context, error) {
	return c.Conn, ctx, nil
}
