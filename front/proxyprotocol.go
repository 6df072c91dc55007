package front

import (
	"context"
	"net/netip"
)

// ProxyHeader is what the header of the PROXY protocol says of a connection: the client's address, and the one that it connected to. They
// are invalid if the header has none.
type ProxyHeader struct{ Source, Destination netip.AddrPort }

type proxyHeaderKey struct{}

// WithProxyHeader returns a context for the requests of a connection that begins with a header of the PROXY protocol. An
// http.Server's ConnContext can call it: h need not be filled in before the connection's first request is received. Request.RemoteAddr
// is to be the proxy's address: only RealIP says which proxies are trusted.
func WithProxyHeader(ctx context.Context, h *ProxyHeader) context.Context {
	return context.WithValue(ctx, proxyHeaderKey{}, h)
}

// proxyHeader is that of the request's connection.
func (x *exchange) proxyHeader() ProxyHeader {
	if h, ok := x.r.Context().Value(proxyHeaderKey{}).(*ProxyHeader); ok {
		return *h
	}
	return ProxyHeader{}
}

// proxyProtocolVariable finds the variables of the PROXY protocol.
func proxyProtocolVariable(name string) (variable, bool) {
	switch name {
	case "proxy_protocol_addr":
		return func(x *exchange) string { return proxyAddr(x.proxyHeader().Source) }, true
	case "proxy_protocol_port":
		return func(x *exchange) string { return portString(x.proxyHeader().Source) }, true
	case "proxy_protocol_server_addr":
		return func(x *exchange) string { return proxyAddr(x.proxyHeader().Destination) }, true
	case "proxy_protocol_server_port":
		return func(x *exchange) string { return portString(x.proxyHeader().Destination) }, true
	}
	return nil, false
}

func proxyAddr(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.Addr().String()
}
