package front

import (
	"context"
	"net/http"
	"net/netip"
)

// proxyHeaderFunc returns the addresses of a PROXY protocol header.
type proxyHeaderFunc func() (source, destination netip.AddrPort)

type proxyHeaderKey struct{}

// WithProxyHeader returns a context for the requests of a connection that begins with a PROXY
// protocol header. header returns the client's address, and the address that the client connected
// to; they are invalid if the header has none. Any goroutine may call it, but only for a request,
// so a server's ConnContext may call WithProxyHeader before the header has arrived.
// Request.RemoteAddr must be the proxy's address; RealIP defines which proxies are trusted.
func WithProxyHeader(ctx context.Context, header func() (source, destination netip.AddrPort)) context.Context {
	return context.WithValue(ctx, proxyHeaderKey{}, proxyHeaderFunc(header))
}

// proxyHeader returns the addresses of the PROXY protocol header of the request's connection.
func (x *exchange) proxyHeader() (source, destination netip.AddrPort) {
	header := proxyHeaderOf(x.r)
	if header == nil || x.plan.hosts.groupOf(x.r).connections.ignoresProxyHeader {
		return source, destination
	}
	return header()
}

// proxyHeaderOf returns the header of a request's connection, or nil.
func proxyHeaderOf(r *http.Request) proxyHeaderFunc {
	header, _ := r.Context().Value(proxyHeaderKey{}).(proxyHeaderFunc)
	return header
}

// proxySource returns the client's address of the header.
func (x *exchange) proxySource() netip.AddrPort {
	source, _ := x.proxyHeader()
	return source
}

// proxyDestination returns the address of the header that the client connected to.
func (x *exchange) proxyDestination() netip.AddrPort {
	_, destination := x.proxyHeader()
	return destination
}

func proxyAddr(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.Addr().String()
}
