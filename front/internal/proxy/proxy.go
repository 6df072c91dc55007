package proxy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/byterange"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/poison"
)

const (
	// defaultMaxBuffered is the default of Proxy.BufferBytes.
	defaultMaxBuffered = 64 << 10
	// defaultMaxSpooled is the default of Proxy.MaxSpool, as in nginx.
	defaultMaxSpooled = 1 << 30
)

// proxy is a Proxy, compiled: the content of a location with an upstream.
type proxy struct {
	from    *conf.Proxy
	target  proxyTarget
	uri     uriRule
	header  headerRules   // for HTTP
	fastcgi *fastcgiRules // for FastCGI, else nil
	tlsName core.Text     // for verifying certificates; "" is the host of the target
	// the files of the certificate for upstreams, if variables name them
	tlsCert, tlsKey core.Text

	method core.Text
	body   *core.Text // replaces the client's

	response *responseRules
	cache    *proxyCache // nil without a cache
	bind     core.Text   // the local address of connections
	readRate core.Text
	pool     *fetch.Pool // connections by TLS or with a local address; nil if there may be none

	upstream    fetch.Upstream
	boundClient *client.Client // nil without a cache
}

// ProxyModule forwards requests to upstreams, and caches responses: proxy_pass, fastcgi_pass,
// grpc_pass, and the directives with those prefixes.
func ProxyModule() core.Module {
	return core.Module{
		Prepare: func(c *core.Compiler, _ core.Slot) {
			compileCaches(c)
			compileUpstreams(c)
		},
		Location: func(c *core.Compiler, loc *core.Location, from *conf.Location) {
			if from.Proxy != nil {
				loc.Content = core.Shared(c, proxyKey{from.Proxy, from.Match, from.Path},
					func() core.Content { return newProxy(c, from) })
			}
		},
		Variables: func(core.Slot) map[string]core.KnownVariable {
			all := proxyVariables()
			maps.Copy(all, attemptVariables())
			return all
		},
		Families: proxyFamilies(),
	}
}

// proxyOf returns the proxy of the exchange's location, or nil.
func proxyOf(x *core.Exchange) *proxy {
	p, _ := x.Loc.Content.(*proxy)
	return p
}

// proxyKey is all that the Proxies of locations differ in.
type proxyKey struct {
	from        *conf.Proxy
	match, path string
}

func newProxy(c *core.Compiler, l *conf.Location) *proxy {
	from := l.Proxy
	if !slices.Contains([]string{"", "https", "fastcgi", "scheme", "grpc"}, from.Protocol) {
		c.Failf("invalid protocol %q (must be https, fastcgi, scheme, grpc or empty)", from.Protocol)
	}
	p := &proxy{
		from: from, upstream: fetch.Upstream{
			ConnectTimeout: cmp.Or(from.ConnectTimeout, core.DefaultTimeout),
			SendTimeout:    cmp.Or(from.SendTimeout, core.DefaultTimeout),
			ReadTimeout:    cmp.Or(from.ReadTimeout, core.DefaultTimeout),
			IsFastCGI:      from.Protocol == "fastcgi", IsHTTP2: from.Version == "2",
			Pending: &c.State.Pending, Expired: c.Plan.Expired, CatchStderr: from.CatchStderr,
		},
	}
	if from.BufferBytes < 0 || from.ConnectTimeout < 0 || from.SendTimeout < 0 || from.ReadTimeout < 0 {
		c.Failf("proxy: negative buffer size or timeout")
	}
	if p.cache = compileProxyCache(c, p); p.cache != nil && len(c.Options.Bound) > 0 {
		p.boundClient = newBoundClient()
	}
	checkProtocol(c, from)
	compileTarget(c, p, l)
	compileConnections(c, p)
	compileURI(c, p, l)
	compileRequest(c, p)
	compileResponse(c, p, l)
	compileNext(c, p)
	compileHealthCheck(c, p)
	return p
}

func checkProtocol(c *core.Compiler, p *conf.Proxy) {
	switch {
	case !slices.Contains([]string{"https", "scheme", "grpc"}, p.Protocol) &&
		(p.TLS.Config != nil || p.TLS.Name != "" || p.TLS.SNI):
		c.Failf("proxy: TLS requires HTTPS")
	case p.Protocol != "fastcgi" && (len(p.Params) > 0 || p.ParamIndex != "" || p.SplitPath != "" || p.KeepConn):
		c.Failf("proxy: Params, ParamIndex, SplitPath and KeepConn require FastCGI")
	case p.Protocol == "fastcgi" && p.Version != "":
		c.Failf("proxy: Version requires HTTP")
	}
}

func compileRequest(c *core.Compiler, p *proxy) {
	from := p.from
	p.method = c.Text("proxy method", from.Method)
	if p.method.Constant() && p.method.Literal != "" && !httpguts.ValidHeaderFieldName(p.method.Literal) {
		c.Failf("proxy: invalid method %q", p.method.Literal)
	}
	if from.Body != nil {
		p.body = new(c.Text("proxy body", *from.Body))
	}
	if from.Protocol == "fastcgi" {
		p.fastcgi = newFastCGIRules(c, from)
	} else {
		compileHeaderRules(c, &p.header, from)
	}
}

// compileNext compiles the conditions for trying another server.
func compileNext(c *core.Compiler, p *proxy) {
	n := p.from.Next
	if !n.Off && !n.Error && !n.Timeout && !n.InvalidHeader && n.Statuses == nil {
		n.Error, n.Timeout = true, true
	}
	if n.Tries < 0 || n.For < 0 {
		c.Failf("proxy: next: negative tries or time")
	}
	for _, s := range n.Statuses {
		if !cache.IsFailure(s) {
			c.Failf("proxy: next: unsupported status %d: want 403, 404, 429, 500, 502, 503 or 504", s)
		}
	}
	p.upstream.Next = n
}

// proxyState is the part of an exchange that only proxying needs.
type proxyState struct {
	proxy      *proxy            // that has responded last, or will
	attempts   []*fetch.Attempts // one for each upstream request: internal redirects may make several
	target     targetName        // if it depends on variables
	cacheState cache.State       // what the cache did
	slice      slicedResponse    // nil unless the response is fetched in slices

	upstreamHeader http.Header // of the last response; read only; nil if its head passes
	heads          headMemory

	firstRequest upstreamRequest // avoids an allocation; most exchanges have one upstream request
	clientMemory *client.Memory
}

// slicedResponse is a response that consists of several of the upstream. The interface keeps the
// rest of the package independent of the module in slice.go.
type slicedResponse interface {
	isPart() func(*http.Response) bool
	respond(x *core.Exchange, p *proxy, target destination, first *cache.Response) core.Outcome
}

// isSlice reports whether a response is one of several slices.
func (p *proxyState) isSlice(status int) bool {
	return p.slice != nil && status == http.StatusPartialContent
}

// stateOf returns the proxyState of an exchange, or nil.
func stateOf(x *core.Exchange) *proxyState {
	p, _ := x.Proxy.(*proxyState)
	return p
}

// ensureState returns the proxyState of an exchange, which gets one if it has none. Its memory comes
// from a free list: that saves a kilobyte of garbage for each exchange.
func ensureState(x *core.Exchange) *proxyState {
	if x.Proxy == nil {
		p, ok := x.Plan.State.ProxyStates.Get().(*proxyState)
		if !ok {
			p = new(proxyState)
		}
		x.Proxy = p
	}
	return stateOf(x)
}

// Recycle implements upstreamState. It returns the proxyState to the free list, if nothing else can
// refer to it. After a failed write the server still may: see abortOnError.
func (p *proxyState) Recycle(x *core.Exchange) {
	isUnsent := p.firstRequest.proxy == nil // requests that a cache may use later have memory of their own
	if isUnsent || p.firstRequest.request.Reset() {
		x.Proxy = nil
		releaseProxyState(x.Plan.State, p)
	}
}

// releaseProxyState zeroes the state, so that a later use meets nil. In builds with the tag poison
// it is never reused.
func releaseProxyState(s *core.State, p *proxyState) {
	memory, heads, params, header := p.clientMemory, p.heads.spare(), p.firstRequest.params, p.firstRequest.header
	params.Clear()
	header.clear()
	if *p = (proxyState{clientMemory: memory}); !poison.Enabled {
		p.heads, p.firstRequest.params, p.firstRequest.header = heads, params, header
		s.ProxyStates.Put(p)
	}
}

// Serve implements core.Content.
func (p *proxy) Serve(x *core.Exchange) core.Outcome {
	if p.from.Intercept {
		x.InterceptsErrors = true
	}
	if p.callsBound() {
		return p.callBound(x, p.target.bound, "")
	}
	return p.serveTarget(x)
}

// serveTarget finds the target of the request, and responds from the cache or by the target.
func (p *proxy) serveTarget(x *core.Exchange) core.Outcome {
	state := ensureState(x)
	state.proxy, state.slice, state.cacheState, state.upstreamHeader = p, nil, "", nil // of another location before
	x.Response.Raw = message.Head{}
	target, err := p.target.resolve(x)
	if err != nil {
		x.Errorf(errorlog.LevelError, "no upstream: %v", err)
		status := targetErrorStatus(err)
		if status != http.StatusBadGateway {
			stateOf(x).target = targetName{}
		}
		return x.Fail(status)
	}
	from, err := p.cache.of(x)
	if err != nil {
		x.Errorf(errorlog.LevelError, "%v", err)
		return x.Fail(http.StatusInternalServerError)
	}
	if target.bound != nil && (from == nil || wantsUpgrade(x.Request)) {
		return p.callBound(x, target.bound, target.rest)
	}
	if out := p.receiveBody(x); out != core.Proceed {
		return out
	}
	if from != nil {
		return p.serveCached(x, target, from)
	}
	resp, s, err := p.fetch(x, target)
	if err != nil {
		return p.fail(x, err)
	}
	if resp.Header == nil && (s.isSticky() || stateOf(x).isSlice(resp.StatusCode) || p.from.ForceRanges) {
		resp.Header = stateOf(x).clientMemory.Header() // a field will be added
	}
	s.bindClient(x, resp.Header)
	if stateOf(x).isSlice(resp.StatusCode) {
		return stateOf(x).slice.respond(x, p, target, cache.Pass(resp))
	}
	return p.respond(x, resp)
}

// callsBound reports whether a bound handler responds to each request.
func (p *proxy) callsBound() bool { return p.target.bound != nil && p.cache == nil }

// fetch sends an upstream request without a cache.
func (p *proxy) fetch(x *core.Exchange, target destination) (*http.Response, *upstreamRequest, error) {
	s := p.newRequest(x, target, nil)
	ctx := x.Request.Context()
	if p.from.IgnoreAbort {
		ctx = context.WithoutCancel(ctx)
	}
	resp, err := s.do(ctx)
	return resp, s, err
}

// isSticky reports whether clients of the group are bound to servers.
func (s *upstreamRequest) isSticky() bool { return s.group != nil && s.group.sticky != nil }

// bindClient binds a sticky client to the server that responded to its own request.
func (s *upstreamRequest) bindClient(x *core.Exchange, header http.Header) {
	if s.isSticky() {
		stateOf(x).upstreamHeader = header
		s.group.sticky.bind(x, &s.request.Turn)
	}
}

func (p *proxy) serveCached(x *core.Exchange, target destination, from *openedCache) core.Outcome {
	a, s, err := p.fetchCached(x, target, from)
	if err != nil {
		return p.fail(x, err)
	}
	if a.Passed != nil && s != nil {
		s.bindClient(x, a.Passed.Header)
	}
	if stateOf(x).isSlice(a.Status) {
		return stateOf(x).slice.respond(x, p, target, a)
	}
	if a.Passed != nil {
		return p.respond(x, a.Passed)
	}
	defer a.Close()
	if p.passStored(x, a) {
		return p.sendStored(x, a)
	}
	if out := p.redirectInternally(x, a.Status, a.Header); out != core.Proceed {
		return out
	}
	header := x.Response.Header()
	p.response.copyHeader(x, a.Status, header, a.Header)
	if p.keepsDate() {
		header["Date"] = a.Header["Date"]
	}
	switch {
	case !x.IsConditional(): // as in nginx
		delete(header, "Accept-Ranges")
	case p.from.ForceRanges && a.Status == http.StatusOK:
		header["Accept-Ranges"] = []string{"bytes"}
	}
	a.Mark(header)
	if x.DiscardsBody() || !message.BodyAllowed(x.PageStatus(a.Status)) {
		x.Response.WriteHeader(a.Status)
		return core.Responded
	}
	r := x.WithConditions(x.Request, message.FirstValue(a.Header["Content-Type"]))
	return endSelected(x, a.Send(&x.Response, r, x.Loc.Selector()))
}

// keepsDate reports whether the client of a stored response receives its Date, to which Age refers
// (RFC 9111, 4.2.3).
func (p *proxy) keepsDate() bool { return !ignoresField(p.from.Hide, "Date") }

// passStored prepares to pass the head of a stored response, and reports whether it can.
func (p *proxy) passStored(x *core.Exchange, a *cache.Response) bool {
	head := a.Head()
	if head.Text == nil || p.from.ForceRanges || byterange.MaySelect(x.Request.Header) ||
		!p.passHead(x, a.Status, head, p.keepsDate()) {
		return false
	}
	stateOf(x).upstreamHeader = a.Header
	return true
}

// sendStored sends the response that passStored has prepared.
func (p *proxy) sendStored(x *core.Exchange, a *cache.Response) core.Outcome {
	heads, raw := &stateOf(x).heads, &x.Response.Raw
	heads.text, heads.fields = a.AppendAge(append(heads.text[:0], raw.Text...), raw.Fields)
	x.Response.WriteRawHeader(a.Status, heads.text, heads.fields, nil)
	if x.DiscardsBody() || !message.BodyAllowed(a.Status) {
		return core.Responded
	}
	return endSelected(x, a.SendBody(&x.Response, x.Request.Method))
}

// endSelected ends a response that the request's conditions and ranges have selected.
func endSelected(x *core.Exchange, err error) core.Outcome {
	if unmet, ok := errors.AsType[cache.Unmet](err); ok {
		if unmet == http.StatusPreconditionFailed { // as in nginx
			clear(x.Response.Header())
		}
		return x.Fail(int(unmet))
	}
	if err != nil {
		abortResponse(x, err)
	}
	return core.Responded
}

func (p *proxy) fail(x *core.Exchange, err error) core.Outcome {
	var f *fetch.Error
	switch {
	case errors.As(err, &f) && f.Kind == fetch.InvalidBody:
		return x.Fail(int(cmp.Or(x.BodyStatus.Load(), http.StatusBadRequest)))
	case x.Request.Context().Err() != nil && !p.from.IgnoreAbort, x.Plan.Expired.Err() != nil:
		return x.Abort(goneStatus(x))
	case f == nil:
		x.Errorf(errorlog.LevelError, "upstream request: %v", err)
		return x.Fail(http.StatusBadGateway)
	}
	return x.Fail(f.Status)
}

// abortResponse aborts a response that ends early. As in nginx the client receives what has
// arrived, and can tell that it is incomplete.
func abortResponse(x *core.Exchange, err error) {
	if x.Request.Context().Err() == nil && x.Plan.Expired.Err() == nil {
		x.Errorf(errorlog.LevelError, "upstream response is incomplete: %v", err)
		// an error does not matter: the rest is lost anyway
		_ = http.NewResponseController(&x.Response).Flush()
	}
	panic(http.ErrAbortHandler)
}
