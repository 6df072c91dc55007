package engine

import (
	"crypto/tls"
	"errors"
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
		if err := s.http2.configure(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			return nil, err
		}
		set.SetHTTP2(s.http2.supported())
	}
	offered := setOffered(slices.Clone(protos), netconn.ProtoHTTP2, set.HTTP2())
	return setOffered(offered, netconn.ProtoHTTP11, set.HTTP1()), nil
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
