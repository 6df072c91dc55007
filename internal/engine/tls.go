package engine

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/engine/netconn"
)

// NextProtos returns the ALPN protocols for a TLS listener (RFC 7301): protos, with HTTP/2 and
// HTTP/1.1 added or removed according to the settings. It does not change protos. It returns
// net/http's error if HTTP/2 is enabled with cipher suites that HTTP/2 forbids.
func (s *Server) NextProtos(protos []string) ([]string, error) {
	set := s.protocols()
	if set.HTTP2() && s.nextProto(netconn.ProtoHTTP2) == nil {
		offers, err := s.offersHTTP2()
		if err != nil {
			return nil, err
		}
		set.SetHTTP2(offers)
	}
	offered := setOffered(slices.Clone(protos), netconn.ProtoHTTP2, set.HTTP2())
	return setOffered(offered, netconn.ProtoHTTP11, set.HTTP1()), nil
}

// offersHTTP2 reports whether net/http would offer HTTP/2, which GODEBUG and a build tag can
// disable. It returns the error with which net/http rejects the cipher suites of TLSConfig. Only
// net/http knows the three, so offersHTTP2 starts a closed http.Server, which accepts nothing.
func (s *Server) offersHTTP2() (bool, error) {
	probe := &http.Server{Protocols: s.settings.Protocols, TLSConfig: new(tls.Config)}
	if c := s.settings.TLSConfig; c != nil {
		probe.TLSConfig.CipherSuites, probe.TLSConfig.MinVersion = c.CipherSuites, c.MinVersion
	}
	probe.TLSConfig.NextProtos = []string{netconn.ProtoHTTP2}
	_ = probe.Close()
	if err := probe.Serve(new(net.TCPListener)); !errors.Is(err, http.ErrServerClosed) {
		return false, err
	}
	return probe.TLSNextProto[netconn.ProtoHTTP2] != nil, nil
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

// protocolHandler is the ProtocolHandler of netconn.Config.
func (s *Server) protocolHandler(proto string) func(*tls.Conn, http.Handler) {
	f := s.nextProto(proto)
	if f == nil {
		return nil
	}
	return func(tc *tls.Conn, h http.Handler) { f(s.settings, tc, h) }
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
