package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/fastcgi"
	"github.com/tarehq/tare/internal/engine/h1"
	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/engine/netconn"
	"github.com/tarehq/tare/internal/engine/shard"
	"github.com/tarehq/tare/internal/wire/http1"
)

// serveConfig holds the settings of one Serve call in the form in which connections use them.
type serveConfig struct {
	exchanges exchange.Config
	shards    shard.Config
	netConns  netconn.Config
}

func (s *Server) newServeConfig(l net.Listener, secure *tls.Config) *serveConfig {
	p := &serveConfig{exchanges: s.newExchangeConfig(l, secure)}
	http2 := h2.NewConfig(&p.exchanges, http2Config(s.settings), s.settings.MaxHeaderBytes)
	http2.ExtendedConnect = s.ExtendedConnect ||
		strings.Contains(os.Getenv("GODEBUG"), "http2xconnect=1") // net/http's own rule
	http2.IgnoresPriority = setting[bool](s.settings, "DisableClientPriority")
	p.netConns = netconn.Config{
		Exchanges: &p.exchanges, HTTP2: http2, ConnState: s.settings.ConnState,
		Untrack: s.untrack, ProtocolHandler: s.protocolHandler,
	}
	p.netConns.Start()
	p.shards = shard.Config{
		Listener: l, Exchanges: &p.exchanges, HTTP2: http2, Dispatch: s.Dispatch,
		NegotiatesHTTP2: s.nextProto(netconn.ProtoHTTP2) == nil,
		ServeNegotiated: func(ctx context.Context, nc net.Conn) { s.startConn(p, ctx, nc) },
	}
	if s.Plaintext != nil && secure != nil && p.exchanges.ServesHTTP1 {
		plain := p.exchanges
		plain.Handler, plain.TLS, plain.ServesH2C, plain.ExpectedTLS = s.Plaintext, nil, false, true
		p.shards.Plaintext = &shard.Config{Listener: l, Exchanges: &plain, HTTP2: http2, Dispatch: s.Dispatch}
	}
	return p
}

// canUseShards reports whether shards can serve the protocols of the connections, and no hook
// requires the net.Conn of each.
func (s *Server) canUseShards(p *serveConfig) bool {
	switch {
	case s.settings.ConnContext != nil || s.settings.ConnState != nil:
		return false
	case p.exchanges.TLS != nil:
		return (p.exchanges.ServesHTTP1 || p.shards.NegotiatesHTTP2) && !s.FastCGI
	}
	return p.exchanges.ServesHTTP1 || p.exchanges.ServesH2C
}

func (s *Server) newExchangeConfig(l net.Listener, secure *tls.Config) exchange.Config {
	set := s.settings
	p := exchange.Config{
		Server: &s.state, Protocol: h1.Protocol(), Handler: settingsHandler{set},
		BaseContext: context.Background(), TLS: secure, ServesHTTP1: s.FastCGI || s.protocols().HTTP1(),
		ReadTimeout: max(0, set.ReadTimeout), WriteTimeout: max(0, set.WriteTimeout),
		DefaultSendTimeout: max(0, s.SendTimeout), OnRefused: s.Refused,
		Limits: http1.Limits{Line: max(0, s.MaxFieldBytes), Fields: defaultMaxFields},
	}
	if n := cmp.Or(s.MaxHeaderValueCount, setting[int](set, "MaxHeaderValueCount")); n > 0 {
		p.Limits.Fields = n
	}
	if set.BaseContext != nil {
		if secure != nil {
			l = tls.NewListener(l, secure)
		}
		if p.BaseContext = set.BaseContext(l); p.BaseContext == nil {
			panic("BaseContext returned a nil context")
		}
	}
	if s.FastCGI {
		p.Protocol, p.Limits.Fields = fastcgi.Protocol(), maxParams
	} else {
		p.BaseContext = context.WithValue(p.BaseContext, http.ServerContextKey, set)
	}
	maxBytes := cmp.Or(max(0, set.MaxHeaderBytes), http.DefaultMaxHeaderBytes)
	p.Limits.Bytes = min(maxBytes, math.MaxInt32-headSlop) + headSlop
	p.IdleTimeout = max(0, cmp.Or(set.IdleTimeout, p.ReadTimeout))
	p.HeadTimeout = cmp.Or(max(0, set.ReadHeaderTimeout), p.ReadTimeout, defaultHeadTimeout)
	p.HandshakeTimeout = p.HeadTimeout
	for _, d := range []time.Duration{p.ReadTimeout, p.WriteTimeout} {
		if d > 0 {
			p.HandshakeTimeout = min(p.HandshakeTimeout, d)
		}
	}
	p.ServesH2C = !s.FastCGI && s.protocols().UnencryptedHTTP2() && netHTTPOffersHTTP2()
	return p
}

// settingsHandler calls the handler that the settings have at the time of the request, as net/http
// does.
type settingsHandler struct{ settings *http.Server }

// ServeHTTP implements http.Handler. It handles "OPTIONS *" as net/http does.
func (h settingsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	set := h.settings
	if r.RequestURI == "*" && r.Method == http.MethodOptions && !set.DisableGeneralOptionsHandler {
		w.Header().Set("Content-Length", "0")
		_, _ = io.CopyN(io.Discard, r.Body, 4<<10)
		return
	}
	handler := set.Handler
	if handler == nil {
		handler = http.DefaultServeMux
	}
	handler.ServeHTTP(w, r)
}

// http2Config returns the settings of HTTP/2. Where http.Server.HTTP2 sets nothing, the
// http2.Server passed to ConfigureServer (golang.org/x/net) applies, as in net/http.
func http2Config(set *http.Server) *http.HTTP2Config {
	var c http.HTTP2Config
	if set.HTTP2 != nil {
		c = *set.HTTP2
	}
	external, ok := externalHTTP2Config(set).(interface{ HTTP2Config() http.HTTP2Config })
	if !ok {
		return &c
	}
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(external.HTTP2Config())
	for i := range to.NumField() {
		if f := to.Field(i); f.CanSet() && f.IsZero() {
			f.Set(from.Field(i))
		}
	}
	return &c
}

// externalHTTP2Config returns what ConfigureServer has left in a field that Go 1.27 has and does
// not export, or nil. Without it the limits that a program sets would have no effect, silently.
func externalHTTP2Config(set *http.Server) any {
	f := reflect.ValueOf(set).Elem().FieldByName("h2Config")
	if !f.IsValid() || f.Kind() != reflect.Interface {
		return nil
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Interface()
}
