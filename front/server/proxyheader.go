package server

import (
	"context"
	"net"
	"net/netip"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/proxyproto"
)

// withProxyHeader adds a connection's PROXY protocol header to the context of its requests.
func withProxyHeader(ctx context.Context, c *proxyproto.Conn) context.Context {
	return front.WithProxyHeader(ctx, func() (source, destination netip.AddrPort) {
		return c.Header.Source, c.Header.Destination
	})
}

// brokenProxyHeader logs a connection closed for an invalid PROXY protocol header.
func (s *Server) brokenProxyHeader(remote net.Addr, err error) {
	s.front.ErrorLogger().Printf("http: connection from %v closed: %v", remote, err)
}
