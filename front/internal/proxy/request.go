package proxy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/front/internal/uri"
	"github.com/tarehq/tare/internal/client"
)

// upstreamRequest is a request of an exchange to an upstream, and its fetch.Observer. Only exchange
// refers to the exchange, so that a cache may continue the request after the exchange has ended.
type upstreamRequest struct {
	request     fetch.Request
	upstream    sender
	proxy       *proxy
	group       *upstreamGroup // nil if the servers' address comes from variables
	params      client.Params
	header      headerMemory // of request.Header
	errorLog    *errorlog.Log
	requestLine [2]string      // method and target, for the error log where exchange is nil
	exchange    *core.Exchange // set while the handler waits for the response, else nil
	fault       error          // why it cannot be sent, or nil
}

// sender sends requests: a fetch.Upstream, or a bound handler.
type sender interface {
	Do(ctx context.Context, q *fetch.Request) (*http.Response, error)
}

// newRequest makes the upstream request of an exchange. opts are those of a cache, or nil.
func (p *proxy) newRequest(x *core.Exchange, target destination, opts *cache.OriginRequest) *upstreamRequest {
	state := stateOf(x)
	s := &state.firstRequest
	if opts != nil || s.proxy != nil { // a cache may use it after the exchange has ended
		s = new(upstreamRequest)
	} else {
		if state.clientMemory == nil {
			state.clientMemory = new(client.Memory)
		}
		s.request.Memory = state.clientMemory
	}
	s.proxy, s.group, s.errorLog = p, target.group, x.ErrorLog()
	if opts == nil || !opts.Behind {
		s.exchange = x
	}
	s.requestLine = [2]string{x.ClientRequest().Method, x.Request.RequestURI}
	q := &s.request
	q.Params = &s.params
	if p.buildRequest(x, s, target, opts); target.bound != nil {
		s.upstream = &boundUpstream{target.bound, p.boundClient, *x.Request, s.errorLog, x.Plan}
	} else {
		s.upstream, q.Observer = &p.upstream, s
		q.Servers, q.Transport, q.Turn = target.servers, target.servers.Transport, target.turn(x)
		if q.Attempts.IsKept = x.Plan.Needs&core.NeedsAttempts != 0; q.Attempts.IsKept {
			state.attempts = append(state.attempts, &q.Attempts)
		}
		if !p.readRate.Empty() && !p.from.Stream {
			if rate, err := grammar.ParseOffset(p.readRate.Eval(x)); err == nil {
				q.ReadRate = min(rate, math.MaxInt32)
			}
		}
		if p.pool != nil {
			s.fault = p.chooseTransport(x, q, target.usesTLS)
		}
	}
	if x.RegexTimedOut {
		s.fault = errRegexTimeout()
	}
	return s
}

func (s *upstreamRequest) do(ctx context.Context) (*http.Response, error) {
	defer func() { s.exchange = nil }()
	if s.fault != nil {
		return nil, s.fault
	}
	return s.upstream.Do(ctx, &s.request)
}

func (p *proxy) buildRequest(x *core.Exchange, s *upstreamRequest, target destination, opts *cache.OriginRequest) {
	q := &s.request
	q.Method, q.Target, q.Body = p.methodFor(x), p.uri.requestTarget(x, target.rest), p.upstreamBody(x)
	if opts != nil && opts.Method != x.Method {
		q.Method = opts.Method // HEAD became GET, so that the response can be cached
	}
	q.IsRepeatable = p.isRepeatable(x.Method, q)
	if p.fastcgi != nil && target.bound == nil {
		p.fastcgi.buildParams(x, q, opts)
		q.ReusesConn = p.from.KeepConn
		return
	}
	q.Host = p.hostFor(x)
	if opts == nil && !p.upstream.IsHTTP2 && !p.header.dropsHeader && len(p.header.fields) == 0 &&
		!p.header.changesHeader(x, x.Request.Header) {
		q.Header = x.Request.Header // the client only reads it, and only until the response
		q.ReusesConn = p.header.reusesConn(x)
		return
	}
	q.Header = p.header.build(x, p.upstream.IsHTTP2, &s.header)
	q.ReusesConn = !p.upstream.IsHTTP2 && p.header.reusesConn(x)
	if opts != nil {
		part := q.Header["Range"]
		if opts.Apply(q.Header); stateOf(x).slice != nil && p.header.sets["Range"] && part != nil {
			q.Header["Range"] = part
		}
	}
}

// hostFor returns the Host of requests by HTTP.
func (p *proxy) hostFor(x *core.Exchange) string {
	if p.header.host != nil {
		if host := p.header.host.Eval(x); host != "" {
			return host
		}
	}
	if p.fastcgi != nil {
		return x.HostHeader
	}
	return p.targetName(x).host
}

// methodFor returns the request's method: that of proxy_method, or the client's.
func (p *proxy) methodFor(x *core.Exchange) string {
	if method := p.method.Eval(x); method != "" {
		return method
	}
	return x.Method
}

// isRepeatable reports whether a request may be sent again after a server has received some of it.
// As in nginx a body that is streamed is sent once, and the client's method counts even if the
// request has another one.
func (p *proxy) isRepeatable(method string, q *fetch.Request) bool {
	if q.Body != nil && q.Body.IsStreamed() {
		return false
	}
	return p.upstream.Next.NonIdempotent || idempotent(method) && idempotent(q.Method)
}

// idempotent reports whether a method is idempotent (RFC 9110, 9.2.2). nginx assumes this of all
// methods except POST, LOCK and PATCH. Here an unknown method is not idempotent.
func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace,
		"COPY", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "UNLOCK", // RFC 4918
		"QUERY", "REPORT", "SEARCH":
		return true
	}
	return false
}

// Responded implements fetch.Observer.
func (s *upstreamRequest) Responded(status int, began time.Time) {
	switch g := s.group; {
	case g == nil || g.counts == nil:
	case status == 0:
		g.counts.Classes[0].Add(1)
	default:
		g.counts.Add(status, time.Since(began))
	}
}

// Failed implements fetch.Observer: it logs the error.
func (s *upstreamRequest) Failed(url string, err error) {
	level := errorlog.LevelError
	switch {
	case errors.Is(err, fetch.ErrDisabled):
		level = errorlog.LevelWarn
	case isCritical(err):
		level = errorlog.LevelCrit
	}
	if x := s.exchange; x != nil {
		x.UpstreamURL = url
		x.Errorf(level, "upstream: %v", err)
		return
	}
	line := errorlog.Truncate(strings.Join(s.requestLine[:], " "))
	s.errorLog.Logf(level, "upstream %s: %v, request: %q", url, err, line)
}

// isCritical reports whether nginx logs an error as critical: a connection could not be opened, but
// neither the server nor the network is down.
func isCritical(err error) bool {
	var call *os.SyscallError
	return errors.As(err, &call) && (call.Syscall == "connect" || call.Syscall == "bind") &&
		!slices.Contains([]error{syscall.EAGAIN, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EHOSTDOWN,
			syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ETIMEDOUT}, call.Err)
}

func (d *destination) turn(x *core.Exchange) upstream.Turn {
	if d.group == nil {
		return d.servers.Peers.Turn("", netip.Addr{})
	}
	var client netip.Addr
	if d.servers.Peers.UsesClient() {
		client = x.ClientAddress().Addr.Addr()
	}
	t := d.servers.Peers.Turn(d.group.key.Eval(x), client)
	if d.group.sticky != nil {
		t.Prefer(d.group.sticky.route(x))
	}
	return t
}

// Interim implements fetch.Observer: it forwards a 1xx response while the request waits for its
// final response (RFC 9110, 15.2). It drops an upstream's 100, because the server has sent its own
// to a client that waits for one.
func (s *upstreamRequest) Interim(status int, h http.Header) {
	x := s.exchange
	if x == nil || status <= http.StatusContinue || status == http.StatusSwitchingProtocols ||
		!x.Request.ProtoAtLeast(1, 1) || !untouched(&x.Response) || status == http.StatusEarlyHints &&
		x.Loc.EarlyHints != nil && !anyTrue(x.Loc.EarlyHints, x) {
		return
	}
	header := x.Response.Header()
	before := maps.Clone(header)
	clear(header)
	rules := s.proxy.response
	rules.copyFields(header, h)
	delete(header, "Content-Length")
	rules.rewriteFields(x, header)
	x.Response.WriteHeader(status)
	clear(header)
	maps.Copy(header, before)
}

// untouched reports whether no response has begun.
func untouched(w *core.Writer) bool { return w.Status == 0 && w.WithheldStatus == 0 }

// uriRule makes the target of upstream requests.
type uriRule struct {
	text    *core.Text // nil keeps the client's
	isWhole bool       // text is the whole target
	prefix  string     // the location's path, which text replaces
}

func compileURI(c *core.Compiler, p *proxy, l *conf.Location) {
	from := l.Proxy
	if from.URI == nil {
		return
	}
	if from.Protocol == "fastcgi" {
		c.Failf("proxy: URI requires HTTP: FastCGI has parameters")
	}
	t := c.Text("proxy URI", *from.URI)
	r := &p.uri
	r.text, r.isWhole = &t, !t.Constant() || !p.target.text.Constant()
	switch l.Match {
	case "", "^~", "=":
		r.prefix = l.Path
	default:
		if !r.isWhole {
			c.Failf("proxy: a URI without variables requires a location with a path: remove the URI, or use rewrite")
		}
	}
	if t.Constant() && !strings.HasPrefix(t.Literal, "/") && !strings.HasPrefix(t.Literal, "?") {
		c.Failf("proxy: URI must begin with a slash")
	}
}

// requestTarget returns the target of an upstream request: path and query. Without a URI, or with
// an empty one, it is the client's, unchanged unless it was rewritten. rest is what followed the
// address in a variable, and URI is appended to it.
func (r *uriRule) requestTarget(x *core.Exchange, rest string) string {
	target := rest
	if r.isWhole {
		target += r.text.Eval(x)
	}
	switch {
	case target != "": // a capture may have decoded spaces, which nginx sends
		return "/" + strings.ReplaceAll(strings.TrimPrefix(target, "/"), " ", "%20")
	case (r.text == nil || r.isWhole) && !x.URIChanged:
		return core.RequestURI(x)
	case r.text == nil, r.isWhole, x.PathRewritten, !strings.HasPrefix(x.Path, r.prefix):
		return uri.WithQuery(uri.EscapePath(x.Path), x.Args)
	}
	return uri.WithQuery(r.text.Literal+uri.EscapePath(x.Path[len(r.prefix):]), x.Args)
}

// compileConnections compiles Bind, ReadRate and ProxyTLS. The connections end with the plan.
func compileConnections(c *core.Compiler, p *proxy) {
	t, tls := &p.target, &p.from.TLS
	p.readRate, p.bind = c.Text("proxy limit_rate", p.from.ReadRate), c.Text("proxy bind", p.from.Bind)
	p.tlsName, p.tlsCert = c.Text("proxy ssl_name", tls.Name), c.Text("proxy ssl_certificate", tls.Cert)
	p.tlsKey = c.Text("proxy ssl_certificate_key", tls.Key)
	if t.bound == nil && (t.usesTLS || t.mayHaveScheme()) || !p.bind.Empty() {
		p.pool = fetch.NewPool(tls, t.keepAlive(), p.upstream.IsHTTP2)
		c.Plan.Releases = append(c.Plan.Releases, p.pool.Close)
	}
}

// chooseTransport chooses the connections of a request by TLS or with a local address. As in nginx
// an invalid address is ignored. An error is that of a certificate whose files come from variables:
// no server is to blame.
func (p *proxy) chooseTransport(x *core.Exchange, q *fetch.Request, usesTLS bool) (err error) {
	id := fetch.Identity{UsesTLS: usesTLS}
	if local := p.bind.Eval(x); local != "" {
		var ok bool
		if id.Local, ok = grammar.ParseAddress(local); !ok {
			x.Errorf(errorlog.LevelError, "invalid local address %q", errorlog.Truncate(local))
		}
	}
	if usesTLS {
		id.Name = fetch.CertificateName(cmp.Or(p.tlsName.Eval(x), p.targetName(x).host))
		id.Cert, id.Key = p.tlsCert.Eval(x), p.tlsKey.Eval(x)
	}
	if q.Local = id.Local; id == (fetch.Identity{}) {
		return nil
	}
	if q.Transport, err = p.pool.Transport(id); err != nil {
		x.Errorf(errorlog.LevelError, "certificate for upstreams: %v", err)
		return &fetch.Error{Kind: fetch.NoServer, Status: http.StatusInternalServerError, Err: err}
	}
	return nil
}
