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

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/fastcgi"
	"github.com/tarehq/tare/internal/engine/h1"
	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/engine/netconn"
	"github.com/tarehq/tare/internal/engine/shard"
	"github.com/tarehq/tare/internal/wire/http1"
)

// Defaults of http.Server's zero fields, and limits for which it has no field.
const (
	// defaultHeadTimeout limits how long a client may take to send a head: from its first byte
	// on, or for the first request from the start of the connection. It applies if neither
	// ReadHeaderTimeout nor ReadTimeout is set. net/http has no limit then.
	defaultHeadTimeout = 30 * time.Second

	// headSlop is how many bytes beyond MaxHeaderBytes net/http reads before it rejects a head.
	headSlop = 4096

	// defaultMaxFields limits the field lines of a head, as http.DefaultMaxHeaderValueCount of Go
	// 1.27 does. A limit in bytes is not enough: an empty field costs the client four bytes and the
	// server a map entry.
	defaultMaxFields = 500

	// maxParams limits the fields of a FastCGI request, which the web server has accepted.
	maxParams = 1000
)

// serveConfig holds the settings of one Serve call in the form in which connections use them.
type serveConfig struct {
	exchanges  exchange.Config
	shards     shard.Config
	usesShards bool
	netConns   netconn.Config
}

func (s *Server) newServeConfig(l net.Listener, secure *tls.Config) *serveConfig {
	p := &serveConfig{exchanges: s.newExchangeConfig(l, secure)}
	http2 := h2.NewConfig(&p.exchanges, http2Config(s.settings), s.settings.MaxHeaderBytes)
	http2.ExtendedConnect = s.ExtendedConnect ||
		strings.Contains(os.Getenv("GODEBUG"), "http2xconnect=1") // net/http's own rule
	http2.IgnoresPriority = setting[bool](s.settings, "DisableClientPriority")
	p.netConns = netconn.Config{
		Exchanges: &p.exchanges, HTTP2: http2, Settings: s.settings, NextProto: s.nextProto, Untrack: s.untrack,
	}
	p.netConns.Start()
	p.usesShards = s.canUseShards(&p.exchanges)
	p.shards = shard.Config{Listener: l, Exchanges: &p.exchanges, HTTP2: http2, Dispatch: s.Dispatch}
	if s.Plaintext != nil && secure != nil && p.exchanges.ServesHTTP1 {
		plain := p.exchanges
		plain.Handler, plain.TLS, plain.ServesH2C, plain.ExpectedTLS = s.Plaintext, nil, false, true
		p.shards.Plaintext = &shard.Config{Listener: l, Exchanges: &plain, HTTP2: http2, Dispatch: s.Dispatch}
	}
	return p
}

// canUseShards reports whether shards can serve the protocols of the connections, and no function
// of the settings requires the net.Conn of each.
func (s *Server) canUseShards(p *exchange.Config) bool {
	switch {
	case s.settings.ConnContext != nil || s.settings.ConnState != nil:
		return false
	case p.TLS == nil:
		return p.ServesHTTP1 || p.ServesH2C
	}
	for proto := range s.settings.TLSNextProto {
		if s.nextProto(proto) != nil {
			return false
		}
	}
	return !s.FastCGI
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
	// ConfigureServer stores it in a field that Go 1.27 has and does not export. Without it the limits
	// that a program sets would have no effect, silently.
	f := reflect.ValueOf(set).Elem().FieldByName("h2Config")
	if !f.IsValid() || f.Kind() != reflect.Interface {
		return &c
	}
	stored := reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem().Interface()
	external, ok := stored.(interface{ HTTP2Config() http.HTTP2Config })
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

// setting returns a field of the settings that not all supported versions of Go have.
func setting[T any](set *http.Server, name string) (v T) {
	if f := reflect.ValueOf(set).Elem().FieldByName(name); f.IsValid() {
		v, _ = f.Interface().(T)
	}
	return v
}
