package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

const (
	protoHTTP2  = "h2"
	protoHTTP11 = "http/1.1"
	protoHTTP10 = "http/1.0"

	recordHandshake = 22 // type of the first TLS record (RFC 8446, 5.1)
)

// NextProtos returns the ALPN protocols for a TLS listener (RFC 7301): protos, with HTTP/2 and
// HTTP/1.1 added or removed according to the settings. It does not change protos. It returns
// net/http's error if HTTP/2 is enabled with cipher suites that HTTP/2 forbids.
func (s *Server) NextProtos(protos []string) ([]string, error) {
	set := s.protocols()
	if set.HTTP2() && s.nextProto(protoHTTP2) == nil {
		if err := s.http2.configure(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			return nil, err
		}
		set.SetHTTP2(s.http2.supported())
	}
	return setOffered(setOffered(slices.Clone(protos), protoHTTP2, set.HTTP2()), protoHTTP11, set.HTTP1()), nil
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

// protocols returns the protocols that the settings enable. A TLSNextProto without "h2" disables
// HTTP/2, as it did before http.Server had Protocols.
func (s *Server) protocols() (p http.Protocols) {
	if s.settings.Protocols != nil {
		return *s.settings.Protocols
	}
	_, has := s.settings.TLSNextProto[protoHTTP2]
	p.SetHTTP1(true)
	p.SetHTTP2(s.settings.TLSNextProto == nil || has)
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

// handshakeTLS performs the TLS handshake, if c is a TLS connection. It reports whether c can be
// served.
func (c *netConn) handshakeTLS() bool {
	tc, ok := c.nc.(*tls.Conn)
	if !ok {
		if stater, ok := c.nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
			state := stater.ConnectionState()
			c.template.TLS = &state
		}
		return true
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.handshakeTimeout)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		if re, ok := errors.AsType[tls.RecordHeaderError](err); ok && re.Conn != nil {
			err = c.refusePlaintext(re, err)
		}
		c.logf("http: TLS handshake error from %s: %v", c.template.RemoteAddr, err)
		return false
	}
	state := tc.ConnectionState()
	c.template.TLS = &state
	return true
}

// refusePlaintext responds to a client that speaks HTTP without TLS. It returns the error to be
// logged.
func (c *netConn) refusePlaintext(re tls.RecordHeaderError, err error) error {
	if first := re.RecordHeader[0]; first&0x80 != 0 || first == recordHandshake {
		return err // the client speaks TLS, or SSL 2
	}
	sent := int64(0)
	if looksLikeHTTP(re.RecordHeader) {
		const text = "Client sent an HTTP request to an HTTPS server.\n"
		_, _ = io.WriteString(re.Conn, "HTTP/1.0 400 Bad Request\r\n\r\n"+text)
		err, sent = errors.New("client sent an HTTP request to an HTTPS server"), int64(len(text))
	}
	c.serveConfig.reportRequest(c.nc.LocalAddr(), c.template.RemoteAddr, nil, new(http1.Request), re.RecordHeader[:],
		http.StatusBadRequest, sent)
	return err
}

// looksLikeHTTP reports whether the first record begins like an HTTP request.
func looksLikeHTTP(record [5]byte) bool {
	switch string(record[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// selectProtocol hands off a connection that speaks a protocol other than HTTP/1. It reports
// whether c speaks HTTP/1 and the settings allow it. The TLS handshake is complete.
func (c *netConn) selectProtocol() bool {
	tc, ok := c.nc.(*tls.Conn)
	if !ok {
		if c.servesH2C && c.template.TLS == nil && c.hasPreface() {
			c.handOffToHTTP2()
			return false
		}
		return c.servesHTTP1
	}
	proto := c.template.TLS.NegotiatedProtocol
	switch proto {
	case "", protoHTTP11, protoHTTP10:
		return c.servesHTTP1
	}
	switch f := c.nextProto(proto); {
	case f != nil && c.claimNew():
		ctx := context.WithValue(c.ctx, http.LocalAddrContextKey, tc.LocalAddr())
		f(c.settings, tc, nextProtoHandler{ctx, tc, c.handler})
	case f == nil && proto == protoHTTP2:
		c.handOffToHTTP2()
	}
	return false
}

// nextProtoHandler is the handler that functions of TLSNextProto receive.
type nextProtoHandler struct {
	ctx  context.Context
	conn *tls.Conn
	http.Handler
}

// BaseContext returns the connection's context; golang.org/x/net/http2 calls it.
func (h nextProtoHandler) BaseContext() context.Context { return h.ctx }

// ServeHTTP sets fields of the request that implementations of other protocols may omit.
func (h nextProtoHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil {
		state := h.conn.ConnectionState()
		r.TLS = &state
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if r.RemoteAddr == "" {
		r.RemoteAddr = h.conn.RemoteAddr().String()
	}
	h.Handler.ServeHTTP(w, r)
}
