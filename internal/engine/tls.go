package engine

import (
	"crypto/tls"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/engine/netconn"
)

// NextProtos returns the ALPN protocols for a TLS listener (RFC 7301): protos, with HTTP/2 and
// HTTP/1.1 added or removed according to the settings. It does not change protos.
func (s *Server) NextProtos(protos []string) []string {
	set := s.protocols()
	if set.HTTP2() && s.nextProto(netconn.ProtoHTTP2) == nil {
		set.SetHTTP2(netHTTPOffersHTTP2())
	}
	offered := setOffered(slices.Clone(protos), netconn.ProtoHTTP2, set.HTTP2())
	return setOffered(offered, netconn.ProtoHTTP11, set.HTTP1())
}

// netHTTPOffersHTTP2 reports whether HTTP/2 is enabled. GODEBUG, a go:debug line and a build tag
// can disable it, which only the TLSNextProto of an http.Server shows after Serve.
func netHTTPOffersHTTP2() bool {
	var probe http.Server
	_ = probe.Close()
	_ = probe.Serve(new(net.TCPListener))
	return probe.TLSNextProto[netconn.ProtoHTTP2] != nil
}

// setOffered adds or removes a protocol.
func setOffered(protos []string, proto string, wanted bool) []string {
	switch have := slices.Contains(protos, proto); {
	case wanted && !have:
		return append(protos, proto)
	case !wanted && have:
		return slices.DeleteFunc(protos, func(p string) bool { return p == proto })
	}
	return protos
}

// protocols returns the protocols that the settings enable, of which an empty set is HTTP/1. A
// TLSNextProto without "h2" disables HTTP/2, as it did before http.Server had Protocols.
func (s *Server) protocols() (p http.Protocols) {
	set := s.settings
	if set.Protocols != nil && *set.Protocols != p {
		return *set.Protocols
	}
	_, has := set.TLSNextProto[netconn.ProtoHTTP2]
	p.SetHTTP1(true)
	p.SetHTTP2(set.Protocols == nil && (set.TLSNextProto == nil || has))
	return p
}

// nextProto returns the settings' own function for connections that speak proto, or nil. Functions
// that net/http itself has put into TLSNextProto do not count: they work only for connections of
// net/http.
func (s *Server) nextProto(proto string) func(*http.Server, *tls.Conn, http.Handler) {
	f := s.settings.TLSNextProto[proto]
	if f == nil {
		return nil
	}
	if code := runtime.FuncForPC(reflect.ValueOf(f).Pointer()); code != nil &&
		strings.HasPrefix(code.Name(), "net/http.") {
		return nil
	}
	return f
}
