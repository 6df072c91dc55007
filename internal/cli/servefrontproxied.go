package cli

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/tarehq/tare/front"
)

// unwrapProxied takes the PROXY protocol off connections, each of which has to begin with it. What it tells is believed of those that by
// names, of all if that is nil.
func unwrapProxied(l net.Listener, timeout time.Duration, by *front.RealIP) net.Listener {
	return proxiedListener{&proxyproto.Listener{Listener: l, ReadHeaderTimeout: timeout, ConnPolicy: requireProxied}, by}
}

func requireProxied(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
	return proxyproto.REQUIRE, nil
}

type proxiedListener struct {
	net.Listener
	by *front.RealIP
}

// Accept implements net.Listener.
func (l proxiedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	raw := c.(*proxyproto.Conn).Raw()
	p := proxiedConn{Conn: c, local: raw.LocalAddr()}
	if !believed(l.by, raw.RemoteAddr()) {
		p.remote = raw.RemoteAddr()
	}
	return p, nil
}

// believed reports whether a proxy's word is taken.
func believed(by *front.RealIP, proxy net.Addr) bool {
	if by == nil {
		return true
	}
	a, ok := proxy.(*net.TCPAddr)
	if !ok {
		return by.Unix
	}
	ip := a.AddrPort().Addr().Unmap()
	return slices.ContainsFunc(by.From, func(net netip.Prefix) bool { return net.Contains(ip) })
}

// proxiedConn is a connection whose other end is the client, as the proxy tells, and whose own is not what the proxy tells: hosts
// are found by it.
type proxiedConn struct {
	net.Conn
	local  net.Addr
	remote net.Addr // nil is what the proxy tells
}

// LocalAddr implements net.Conn.
func (c proxiedConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c proxiedConn) RemoteAddr() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.Conn.RemoteAddr()
}
