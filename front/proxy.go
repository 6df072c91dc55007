package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/fetch"
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
	tls     *fetch.TLS    // for HTTPS, else nil
	tlsName text          // for verifying certificates; "" is the host of the target
	// the files of the certificate for upstreams, if variables name them
	tlsCert, tlsKey text

	method text
	body   *text // replaces the client's

	response    *responseRules
	cache       *proxyCache // nil without a cache
	bind        text        // the local address of connections
	readRate    text
	binds       *fetch.Binds // connections with a local address; nil without bind
	maxBuffered int64        // bytes of a response in memory
	maxSpooled  int64        // bytes of a response in a file

	upstream fetch.Upstream
}

// proxyKey is all that the Proxies of locations differ in.
type proxyKey struct {
	from        *conf.Proxy
	match, path string
}

// proxy compiles a Proxy, or returns that of another location with the same key.
func (c *compiler) proxy(l *conf.Location) (content, error) {
	key := proxyKey{l.Proxy, l.Match, l.Path}
	if p := c.shares.proxies[key]; p != nil {
		return p, nil
	}
	p, err := c.newProxy(l)
	c.shares.proxies[key] = p
	return p, err
}

func (c *compiler) newProxy(l *conf.Location) (content, error) {
	from := l.Proxy
	if !slices.Contains([]string{"", "https", "fastcgi", "scheme", "grpc"}, from.Protocol) {
		return nil, fmt.Errorf("invalid protocol %q (must be https, fastcgi, scheme, grpc or empty)", from.Protocol)
	}
	p := &proxy{
		from: from, maxBuffered: cmp.Or(from.BufferBytes, defaultMaxBuffered),
		maxSpooled: cmp.Or(from.MaxSpool, defaultMaxSpooled),
		upstream: fetch.Upstream{
			ConnectTimeout: cmp.Or(from.ConnectTimeout, defaultTimeout),
			SendTimeout:    cmp.Or(from.SendTimeout, defaultTimeout),
			ReadTimeout:    cmp.Or(from.ReadTimeout, defaultTimeout),
			IsFastCGI:      from.Protocol == "fastcgi", IsHTTP2: from.Version == "2",
			Pending: &c.state.pending, Expired: c.plan.expired, CatchStderr: from.CatchStderr,
		},
	}
	if from.BufferBytes < 0 || from.ConnectTimeout < 0 || from.SendTimeout < 0 || from.ReadTimeout < 0 {
		return nil, errors.New("proxy: negative buffer size or timeout")
	}
	var err error
	if p.cache, err = c.proxyCache(from); err != nil {
		return nil, err
	}
	if err = checkProtocol(from); err != nil {
		return nil, err
	}
	for _, compile := range []func(*conf.Location) error{
		func(l *conf.Location) error { return c.proxyTarget(p, l) },
		func(l *conf.Location) error { return c.proxyURI(p, l) },
		func(l *conf.Location) error { return c.proxyRequest(p) },
		func(l *conf.Location) error { return c.proxyResponse(p, l) },
		func(*conf.Location) error { return p.compileNext() },
		func(*conf.Location) error { return c.proxyLimits(p) },
		func(*conf.Location) error { return c.healthCheck(p) },
	} {
		if err := compile(l); err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
	}
	if p.target.bound == nil || p.cache != nil {
		return p, nil
	}
	return c.bindHandler(p), nil
}

// checkProtocol rejects settings that another protocol has.
func checkProtocol(p *conf.Proxy) error {
	switch {
	case !slices.Contains([]string{"https", "scheme", "grpc"}, p.Protocol) &&
		(p.TLS.Config != nil || p.TLS.Name != "" || p.TLS.SNI):
		return errors.New("proxy: TLS requires HTTPS")
	case p.Protocol != "fastcgi" && (len(p.Params) > 0 || p.ParamIndex != "" || p.SplitPath != "" || p.KeepConn):
		return errors.New("proxy: Params, ParamIndex, SplitPath and KeepConn require FastCGI")
	case p.Protocol == "fastcgi" && p.Version != "":
		return errors.New("proxy: Version requires HTTP")
	}
	return nil
}

// proxyRequest compiles the upstream request.
func (c *compiler) proxyRequest(p *proxy) (err error) {
	from := p.from
	if p.method, err = c.text(from.Method); err != nil {
		return err
	}
	if p.method.constant() && p.method.literal != "" && !validToken(p.method.literal) {
		return fmt.Errorf("invalid method %q", p.method.literal)
	}
	if from.Body != nil {
		body, err := c.text(*from.Body)
		if err != nil {
			return err
		}
		p.body = &body
	}
	if from.Protocol == "fastcgi" {
		p.fastcgi, err = c.fastcgiRules(from)
		return err
	}
	return c.headerRules(&p.header, from)
}

// compileNext compiles when another server is tried.
func (p *proxy) compileNext() error {
	n := p.from.Next
	if !n.Off && !n.Error && !n.Timeout && !n.InvalidHeader && n.Statuses == nil {
		n.Error, n.Timeout = true, true
	}
	if n.Tries < 0 || n.For < 0 {
		return errors.New("next: negative tries or time")
	}
	for _, s := range n.Statuses {
		if !cache.IsFailure(s) {
			return fmt.Errorf("next: unsupported status %d: want 403, 404, 429, 500, 502, 503 or 504", s)
		}
	}
	p.upstream.Next = n
	return nil
}

// validToken reports whether s is a token (RFC 9110, 5.6.2).
func validToken(s string) bool { return httpguts.ValidHeaderFieldName(s) }

// proxyState is the part of an exchange that only proxying needs.
type proxyState struct {
	clientBody *fetch.Body       // the client's body, as far as it was received
	attempts   []*fetch.Attempts // one for each upstream request: internal redirects may make several
	target     targetName        // for variables

	upstreamHeader http.Header // of the last response; read only; nil if raw has its head
	raw            rawHead

	firstRequest upstreamRequest // avoids an allocation; most exchanges have one upstream request
	clientMemory *client.Memory
}

// closeProxyState releases the request's body.
func (x *exchange) closeProxyState() {
	if x.proxy != nil && x.proxy.clientBody != nil {
		x.proxy.clientBody.Close()
	}
}

// recycleProxyState returns the proxyState to the free list, if nothing else can refer to it. After
// a failed write the server still may: see abortOnError.
func (x *exchange) recycleProxyState() {
	if p := x.proxy; p != nil && x.isComplete && p.firstRequest.request.Reset() {
		x.proxy = nil
		x.plan.state.releaseProxyState(p)
	}
}

// acquireProxyState and releaseProxyState use a free list, which saves a kilobyte of garbage for
// each exchange.
func (s *state) acquireProxyState() *proxyState {
	if p, ok := s.proxyStates.Get().(*proxyState); ok {
		return p
	}
	return new(proxyState)
}

// releaseProxyState zeroes the state, so that a later use meets nil. In builds with the tag poison
// it is never reused.
func (s *state) releaseProxyState(p *proxyState) {
	memory, raw, params := p.clientMemory, p.raw.spare(), p.firstRequest.params
	params.Clear()
	if *p = (proxyState{clientMemory: memory}); !poison.Enabled {
		p.raw, p.firstRequest.params = raw, params
		s.proxyStates.Put(p)
	}
}

// serve implements content.
func (p *proxy) serve(x *exchange) outcome {
	x.part = nil // of another location
	if p.from.Intercept {
		x.interceptsErrors = true
	}
	target, err := p.target.resolve(x)
	if err != nil {
		x.errorf(levelError, "no upstream: %v", err)
		status := targetErrorStatus(err)
		if status != http.StatusBadGateway {
			x.proxy.target = targetName{}
		}
		return x.fail(status)
	}
	pc, err := p.cache.of(x)
	if err != nil {
		x.errorf(levelError, "%v", err)
		return x.fail(http.StatusInternalServerError)
	}
	if target.bound != nil && (pc == nil || wantsUpgrade(x.r)) {
		return (&boundHandler{p, target.bound}).respond(x, target.rest, x.proxy.target.host)
	}
	if out := p.receiveBody(x); out != proceed {
		return out
	}
	if pc != nil {
		return p.serveCached(x, target, pc)
	}
	resp, s, err := p.fetch(x, target)
	if err != nil {
		return p.fail(x, err)
	}
	if resp.Header == nil && (s.isSticky() || x.isParted(resp.StatusCode) || p.from.ForceRanges) {
		resp.Header = x.proxy.clientMemory.Header() // a field will be added
	}
	s.bindClient(x, resp.Header)
	if x.isParted(resp.StatusCode) {
		if out := p.redirectInternally(x, resp.StatusCode, resp.Header); out != proceed {
			closeQuietly(resp.Body)
			return out
		}
		return x.part.respond(x, p, target, partOf(resp))
	}
	return p.respond(x, resp)
}

// fetch sends an upstream request without a cache.
func (p *proxy) fetch(x *exchange, target destination) (*http.Response, *upstreamRequest, error) {
	s := p.newRequest(x, target, nil)
	ctx := x.r.Context()
	if p.from.IgnoreAbort {
		ctx = context.WithoutCancel(ctx)
	}
	resp, err := s.do(ctx)
	return resp, s, err
}

// isSticky reports whether clients of the group are bound to servers.
func (s *upstreamRequest) isSticky() bool { return s.group != nil && s.group.sticky != nil }

// bindClient binds a sticky client to the server that responded to its own request.
func (s *upstreamRequest) bindClient(x *exchange, header http.Header) {
	if s.isSticky() {
		x.proxy.upstreamHeader = header
		s.group.sticky.bind(x, &s.request.Turn)
	}
}

// serveCached responds from the cache.
func (p *proxy) serveCached(x *exchange, target destination, pc *proxyCache) outcome {
	a, s, err := p.fetchCached(x, target, pc)
	if err != nil {
		return p.fail(x, err)
	}
	if a.Passed != nil {
		a.Passed.Header = a.Passed.Header.Clone()
		a.Mark(a.Passed.Header)
		if s != nil {
			s.bindClient(x, a.Passed.Header)
		}
	}
	if x.isParted(a.Status) {
		if out := p.redirectInternally(x, a.Status, a.Header); out != proceed {
			a.Discard()
			return out
		}
		return x.part.respond(x, p, target, cachedPart(a))
	}
	if a.Passed != nil {
		return p.respond(x, a.Passed)
	}
	defer a.Close()
	if out := p.redirectInternally(x, a.Status, a.Header); out != proceed {
		return out
	}
	header := x.w.Header()
	p.response.copyHeader(x, a.Status, header, a.Header)
	if !ignoresField(p.from.Hide, "Date") { // Age refers to it (RFC 9111, 4.2.3)
		header["Date"] = a.Header["Date"]
	}
	a.Mark(header)
	a.Streams = p.isStreamed(a.Header)
	if x.discardsBody() {
		x.w.WriteHeader(a.Status)
	} else if err := a.Send(&x.w, x.withoutRange(x.withConditions(x.r, firstValue(a.Header["Last-Modified"])),
		firstValue(a.Header["Content-Type"]))); err != nil {
		x.abortResponse(err)
	}
	return responded
}

// fail responds after an error of the upstream.
func (p *proxy) fail(x *exchange, err error) outcome {
	var f *fetch.Error
	switch {
	case errors.As(err, &f) && f.Kind == fetch.InvalidBody:
		return x.fail(int(cmp.Or(x.bodyStatus.Load(), http.StatusBadRequest)))
	case x.r.Context().Err() != nil && !p.from.IgnoreAbort, x.plan.expired.Err() != nil:
		x.endWithoutResponse(x.goneStatus())
		// else a server that has not noticed the client's departure would send an empty response
		panic(http.ErrAbortHandler)
	case f == nil:
		x.errorf(levelError, "upstream request: %v", err)
		return x.fail(http.StatusBadGateway)
	}
	return x.fail(f.Status)
}

// abortResponse aborts a response that ends early. As in nginx the client receives what has
// arrived, and can tell that it is incomplete.
func (x *exchange) abortResponse(err error) {
	if x.r.Context().Err() == nil && x.plan.expired.Err() == nil {
		x.errorf(levelError, "upstream response is incomplete: %v", err)
		// an error does not matter: the rest is lost anyway
		_ = http.NewResponseController(&x.w).Flush()
	}
	panic(http.ErrAbortHandler)
}

// closeQuietly closes c, where an error could not be reported.
func closeQuietly(c io.Closer) { _ = c.Close() }
