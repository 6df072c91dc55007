package server

import (
	"context"
	"net"
	"net/netip"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/proxyproto"
)

func withProxyHeader(ctx context.Context, c *proxyproto.Conn) context.Context {
	return front.WithProxyHeader(ctx, func() (source, destination netip.AddrPort) {
		return c.Header.Source, c.Header.Destination
	})
}

func (s *Server) brokenProxyHeader(remote net.Addr, err error) {
	s.front.ErrorLogger().Printf("http: connection from %v closed: %v", remote, err)
}
