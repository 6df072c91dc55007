package front

import (
	"context"
	"net/netip"
)

// ProxyHeader is the header of the PROXY protocol: the client's address, and the address that the
// client connected to. They are invalid if the header has none.
type ProxyHeader struct{ Source, Destination netip.AddrPort }

type proxyHeaderKey struct{}

// WithProxyHeader returns a context for the requests of a connection that begins with a PROXY
// protocol header. A server's ConnContext can call it: h may be filled in until the connection's
// first request is received. Request.RemoteAddr must be the proxy's address; RealIP defines
// which proxies are trusted.
func WithProxyHeader(ctx context.Context, h *ProxyHeader) context.Context {
	return context.WithValue(ctx, proxyHeaderKey{}, h)
}

// proxyHeader returns the PROXY protocol header of the request's connection.
func (x *exchange) proxyHeader() ProxyHeader {
	if h, ok := x.r.Context().Value(proxyHeaderKey{}).(*ProxyHeader); ok {
		return *h
	}
	return ProxyHeader{}
}

func proxyAddr(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.Addr().String()
}
