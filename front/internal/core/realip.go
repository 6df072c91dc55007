package core

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/tarehq/tare/front/internal/realip"
)

// clientAddress is the address of the connection's peer, and the client's as trusted proxies report
// it.
type clientAddress struct {
	peer, Addr netip.AddrPort // invalid for a unix socket
	replaced   bool           // addr is a proxy's report, and final
	isKnown    bool           // the host's rules have been applied
}

// ClientAddress returns the client's address by the rules of the host, and of the locations whose
// rewrite phase is over, those of subrequests included.
func (x *Exchange) ClientAddress() *clientAddress {
	x = x.Root()
	c := &x.Address
	if c.isKnown {
		return c
	}
	if a, err := netip.ParseAddrPort(x.Request.RemoteAddr); err == nil {
		c.peer = netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
	}
	c.Addr = c.peer
	if c.isKnown = x.Host != nil; c.isKnown {
		c.update(x, x.Host.defaults.realIP)
	}
	return c
}

// update applies rules. The first report of a trusted proxy is final.
func (c *clientAddress) update(x *Exchange, f *realip.Rules) {
	if f == nil || c.replaced {
		return
	}
	var addr netip.AddrPort
	var ok bool
	if f.FromProxyProtocol {
		addr, _ = x.proxyHeader()
		ok = addr.IsValid() && f.Trusts(c.peer)
	} else {
		addr, ok = f.Find(c.peer, x.Request.Header)
	}
	if ok {
		c.Addr, c.replaced = addr, true
	}
}

// ClientAddr is $remote_addr.
func (x *Exchange) ClientAddr() string {
	if x.hasPeerAddress() {
		return realip.PeerHost(x.Request.RemoteAddr)
	}
	return realip.AddrString(x.ClientAddress().Addr)
}

// hasPeerAddress reports whether the client's address is certainly that of the connection, so that
// it need not be parsed.
func (x *Exchange) hasPeerAddress() bool {
	return !x.Root().Address.isKnown && x.Host != nil && x.Host.defaults.realIP == nil
}

func remotePort(x *Exchange) string {
	if x.hasPeerAddress() {
		if port, ok := realip.PeerPort(x.Request.RemoteAddr); ok {
			return port
		}
	}
	return realip.PortString(x.ClientAddress().Addr)
}

// binaryRemoteAddr is $binary_remote_addr: 4 or 16 bytes, or "unix:".
func binaryRemoteAddr(x *Exchange) string {
	if a := x.ClientAddress().Addr; a.IsValid() {
		return string(a.Addr().AsSlice())
	}
	return "unix:"
}

// proxyHeaderFunc returns the addresses of a PROXY protocol header.
type proxyHeaderFunc func() (source, destination netip.AddrPort)

type proxyHeaderKey struct{}

// WithProxyHeader is front.WithProxyHeader.
func WithProxyHeader(ctx context.Context, header proxyHeaderFunc) context.Context {
	return context.WithValue(ctx, proxyHeaderKey{}, header)
}

// proxyHeader returns the addresses of the PROXY protocol header of the request's connection.
func (x *Exchange) proxyHeader() (source, destination netip.AddrPort) {
	header := proxyHeaderOf(x.Request)
	if header == nil || x.Plan.Hosts.GroupOf(x.Request).connections.ignoresProxyHeader {
		return source, destination
	}
	return header()
}

// proxyHeaderOf returns the header of a request's connection, or nil.
func proxyHeaderOf(r *http.Request) proxyHeaderFunc {
	header, _ := r.Context().Value(proxyHeaderKey{}).(proxyHeaderFunc)
	return header
}

// inProxyHeader is a variable of the addresses in the header.
func inProxyHeader(get func(source, destination netip.AddrPort) string) KnownVariable {
	return KnownVariable{Get: func(x *Exchange) string { return get(x.proxyHeader()) }}
}

func proxyAddr(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.Addr().String()
}
