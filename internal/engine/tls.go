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

	tlsHandshake = 22 // the type of the first record (RFC 8446, 5.1)
)

// NextProtos returns what a TLS listener should offer by ALPN (RFC 7301): protos,
// with HTTP/2 and HTTP/1.1 there if the settings serve them and not otherwise.
// protos itself stays as it is. The error is net/http's: HTTP/2 asked for, and
// cipher suites that it forbids.
func (s *Server) NextProtos(protos []string) ([]string, error) {
	set := s.protocols()
	if set.HTTP2() && s.nextProto(protoHTTP2) == nil {
		if err := s.http2.configure(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			return nil, err
		}
		set.SetHTTP2(s.http2.works())
	}
	return offer(offer(slices.Clone(protos), protoHTTP2, set.HTTP2()), protoHTTP11, set.HTTP1()), nil
}

// offer adds or removes a protocol.
func offer(protos []string, proto string, wanted bool) []string {
	switch have := slices.Contains(protos, proto); {
	case wanted && !have:
		return append(protos, proto)
	case !wanted && have:
		return slices.DeleteFunc(protos, func(p string) bool { return p == proto })
	}
	return protos
}

// protocols are those that the settings ask for. A TLSNextProto without HTTP/2 is
// how one did without it before there were Protocols.
func (s *Server) protocols() (p http.Protocols) {
	if s.settings.Protocols != nil {
		return *s.settings.Protocols
	}
	_, has := s.settings.TLSNextProto[protoHTTP2]
	p.SetHTTP1(true)
	p.SetHTTP2(s.settings.TLSNextProto == nil || has)
	return p
}

// nextProto is what the settings want to be called with connections that speak
// proto. What net/http itself has put into TLSNextProto is not that: it works, if
// at all, for connections of net/http's only.
func (s *Server) nextProto(proto string) func(*http.Server, *tls.Conn, http.Handler) {
	f := s.settings.TLSNextProto[proto]
	if f == nil {
		return nil
	}
	if code := runtime.FuncForPC(reflect.ValueOf(f).Pointer()); code != nil && strings.HasPrefix(code.Name(), "net/http.") {
		return nil
	}
	return f
}

// shakeHands does what TLS needs. It reports whether anything can be served.
func (c *netConn) shakeHands() bool {
	tc, ok := c.nc.(*tls.Conn)
	if !ok {
		if stater, ok := c.nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
			state := stater.ConnectionState()
			c.template.TLS = &state
		}
		return true
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.handshake)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		if re, ok := errors.AsType[tls.RecordHeaderError](err); ok && re.Conn != nil {
			err = c.refusePlain(re, err)
		}
		c.logf("http: TLS handshake error from %s: %v", c.template.RemoteAddr, err)
		return false
	}
	state := tc.ConnectionState()
	c.template.TLS = &state
	return true
}

// refusePlain responds to a client that speaks HTTP without TLS, and returns the error to be
// logged.
func (c *netConn) refusePlain(re tls.RecordHeaderError, err error) error {
	if first := re.RecordHeader[0]; first&0x80 != 0 || first == tlsHandshake {
		return err // it does speak TLS, or SSL 2
	}
	sent := int64(0)
	if looksLikeHTTP(re.RecordHeader) {
		const text = "Client sent an HTTP request to an HTTPS server.\n"
		_, _ = io.WriteString(re.Conn, "HTTP/1.0 400 Bad Request\r\n\r\n"+text)
		err, sent = errors.New("client sent an HTTP request to an HTTPS server"), int64(len(text))
	}
	c.plan.report(c.nc.LocalAddr(), c.template.RemoteAddr, nil, new(http1.Request), re.RecordHeader[:], http.StatusBadRequest, sent)
	return err
}

// looksLikeHTTP reports whether what should be a TLS record begins like a request.
func looksLikeHTTP(record [5]byte) bool {
	switch string(record[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// speaksHTTP1 sees to connections that speak something else, after the handshake,
// and reports whether this is none of them.
func (c *netConn) speaksHTTP1() bool {
	tc, ok := c.nc.(*tls.Conn)
	if !ok {
		if c.h2c && c.template.TLS == nil && c.prefaced() {
			c.handToHTTP2()
			return false
		}
		return c.http1
	}
	proto := c.template.TLS.NegotiatedProtocol
	switch proto {
	case "", protoHTTP11, protoHTTP10:
		return c.http1
	}
	switch f := c.nextProto(proto); {
	case f != nil && c.claim():
		ctx := context.WithValue(c.ctx, http.LocalAddrContextKey, tc.LocalAddr())
		f(c.settings, tc, nextHandler{ctx, tc, c.handler})
	case f == nil && proto == protoHTTP2:
		c.handToHTTP2()
	}
	return false
}

// nextHandler is the handler that functions of TLSNextProto are given.
type nextHandler struct {
	ctx  context.Context
	conn *tls.Conn
	http.Handler
}

// BaseContext is how golang.org/x/net/http2 asks for the connection's context.
func (h nextHandler) BaseContext() context.Context { return h.ctx }

// ServeHTTP fills in what implementations of other protocols may leave out.
func (h nextHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
