//go:build tare_overlay

package http

import (
	"context"
	"net"
)

// Replaced has what replaces methods of this package. A function that reports false leaves the call
// to this package. All are nil, unless the package hook is linked.
var Replaced struct {
	ServerServe                   func(s *Server, l net.Listener) (bool, error)
	ServerServeTLS                func(s *Server, l net.Listener, certFile, keyFile string) (bool, error)
	ServerShutdown                func(s *Server, ctx context.Context) (bool, error)
	ServerClose                   func(s *Server) (bool, error)
	ServerSetKeepAlivesEnabled    func(s *Server, enabled bool) bool
	TransportRoundTrip            func(t *Transport, r *Request) (bool, *Response, error)
	TransportCloseIdleConnections func(t *Transport) bool
}
