package server

import (
	"context"
	"net"
	"net/netip"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/proxyproto"
)

// withProxyHeader adds a connection's PROXY protocol header to the context of its requests.
func withProxyHeader(ctx context.Context, nc net.Conn) context.Context {
	for {
		above, ok := nc.(interface{ NetConn() net.Conn }) // TLS, and what a tare.Server has below it
		if !ok {
			break
		}
		nc = above.NetConn()
	}
	if proxied, ok := nc.(*proxyproto.Conn); ok {
		return front.WithProxyHeader(ctx, func() (source, destination netip.AddrPort) {
			return proxied.Header.Source, proxied.Header.Destination
		})
	}
	return ctx
}

// brokenProxyHeader logs a connection closed for an invalid PROXY protocol header.
func (s *Server) brokenProxyHeader(remote net.Addr, err error) {
	s.errors.logger().Printf("http: connection from %v closed: %v", remote, err)
}
