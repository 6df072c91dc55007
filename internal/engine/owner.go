package engine

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"github.com/tarehq/tare/internal/engine/netconn"
)

// netConnOwner is the netconn.Owner of a server's connections. They reach no other method of the
// Server.
type netConnOwner struct{ server *Server }

// Untrack implements netconn.Owner.
func (o netConnOwner) Untrack(c *netconn.Conn) { o.server.untrack(c) }

// ServeHTTP2 implements netconn.Owner.
func (o netConnOwner) ServeHTTP2(nc net.Conn, ctx context.Context) bool {
	return o.server.http2.serve(nc, ctx)
}

// MoveToHTTP2 implements netconn.Owner.
func (o netConnOwner) MoveToHTTP2(c *netconn.Conn) { o.server.http2.moveFromServer(c) }

// ProtocolHandler implements netconn.Owner.
func (o netConnOwner) ProtocolHandler(proto string) func(*tls.Conn, http.Handler) {
	f := o.server.nextProto(proto)
	if f == nil {
		return nil
	}
	return func(tc *tls.Conn, h http.Handler) { f(o.server.settings, tc, h) }
}
