package core

import (
	"context"
	"net/http"
	"net/netip"
)

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

// proxySource returns the client's address of the header.
func (x *Exchange) proxySource() netip.AddrPort {
	source, _ := x.proxyHeader()
	return source
}

// proxyDestination returns the address of the header that the client connected to.
func (x *Exchange) proxyDestination() netip.AddrPort {
	_, destination := x.proxyHeader()
	return destination
}

func proxyAddr(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.Addr().String()
}
