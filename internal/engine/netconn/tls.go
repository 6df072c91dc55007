package netconn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poll"
)

// ALPN protocols (RFC 7301), and a TLS record.
const (
	ProtoHTTP2  = "h2"
	ProtoHTTP11 = "http/1.1"
	protoHTTP10 = "http/1.0"

	// RecordHandshake is the type of the first TLS record (RFC 8446, 5.1).
	RecordHandshake = 22
)

// BeginsTLS reports whether a client whose first byte this is speaks TLS, or SSL 2.
func BeginsTLS(first byte) bool { return first == RecordHandshake || first&0x80 != 0 }

// handshakeTLS performs the TLS handshake, if c is a TLS connection or has the methods of one. It
// reports whether c can be served.
func (c *Conn) handshakeTLS() bool {
	secure, ok := c.NetConn.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return true
	}
	if tc, ok := c.NetConn.(interface{ HandshakeContext(context.Context) error }); ok {
		ctx, cancel := context.WithTimeout(c.ctx, c.config.Exchanges.HandshakeTimeout)
		defer cancel()
		if err := tc.HandshakeContext(ctx); err != nil {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				err = os.ErrDeadlineExceeded // as if the connection had a deadline, like net/http's
			}
			HandshakeFailed(c.config.Exchanges, c.NetConn.LocalAddr(), c.conn.Template.RemoteAddr, err)
			return false
		}
		c.config.Exchanges.Server.CountHandshake()
		c.ready = time.Now()
	}
	state := secure.ConnectionState()
	c.conn.Template.TLS = &state
	if IsHTTP1(state.NegotiatedProtocol) {
		control(c.NetConn, poll.AckNow)
	}
	return true
}

// HandshakeFailed logs the error of a handshake. It responds to a client that speaks HTTP without
// TLS, if this is the reason.
func HandshakeFailed(p *exchange.Config, local net.Addr, remote string, err error) {
	re, ok := errors.AsType[tls.RecordHeaderError](err)
	if ok && re.Conn != nil && !BeginsTLS(re.RecordHeader[0]) {
		sent := int64(0)
		switch string(re.RecordHeader[:]) {
		case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PATCH", "DELET", "PRI *":
			const text = "Client sent an HTTP request to an HTTPS server.\n"
			_, _ = io.WriteString(re.Conn, "HTTP/1.0 400 Bad Request\r\n\r\n"+text)
			err, sent = errors.New("client sent an HTTP request to an HTTPS server"), int64(len(text))
		}
		p.ReportRequest(&http.Request{RemoteAddr: remote}, local, re.RecordHeader[:], http.StatusBadRequest, sent)
	}
	p.Server.Logf("http: TLS handshake error from %s: %v", remote, err)
}

// selectProtocol hands off a connection that speaks a protocol other than HTTP/1. It reports
// whether c speaks HTTP/1 and the settings allow it. The TLS handshake is complete.
func (c *Conn) selectProtocol() bool {
	if c.conn.Template.TLS == nil {
		if c.config.Exchanges.ServesH2C && c.hasPreface() {
			c.serveHTTP2(nil)
			return false
		}
		return c.config.Exchanges.ServesHTTP1
	}
	tc, isTLS := c.NetConn.(*tls.Conn)
	proto := c.conn.Template.TLS.NegotiatedProtocol
	if IsHTTP1(proto) || !isTLS && proto != ProtoHTTP2 {
		return c.config.Exchanges.ServesHTTP1
	}
	switch serve := c.config.NextProto(proto); {
	case serve != nil && isTLS && c.ClaimNew(): // without a call of the hook
		ctx := context.WithValue(c.ctx, http.LocalAddrContextKey, tc.LocalAddr())
		serve(c.config.Settings, tc, nextProtoHandler{ctx, tc, c.config.Exchanges.Handler})
	case serve == nil && proto == ProtoHTTP2:
		c.serveHTTP2(c.conn.Template.TLS)
	}
	return false
}

// IsHTTP1 reports whether an ALPN protocol is HTTP/1. Clients without ALPN negotiate the empty one.
func IsHTTP1(proto string) bool { return proto == "" || proto == ProtoHTTP11 || proto == protoHTTP10 }

// nextProtoHandler is passed to functions of TLSNextProto.
type nextProtoHandler struct {
	ctx     context.Context
	conn    *tls.Conn
	handler http.Handler
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
	h.handler.ServeHTTP(w, r)
}
