package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/cache"
	"github.com/tarehq/tare/front/upstream"
	"github.com/tarehq/tare/internal/client"
)

const (
	// defaultBuffer is how much of an answer stays in memory while its client is slower than the upstream.
	defaultMaxBuffered = 64 << 10
	// defaultSpool is how much of it is put into a file, as in nginx.
	defaultMaxSpooled = 1 << 30
)

// pass is a Pass, compiled: the content that an upstream answers.
type proxy struct {
	from    *Proxy
	target  proxyTarget
	uri     uriRule
	header  headerRules    // of HTTP
	fastcgi *fastcgiRules  // FastCGI, else nil
	tls     *tlsTransports // of HTTPS; nil if that is not spoken

	method text
	body   *text // instead of the client's
	next   upstream.Next

	response    responseRules
	cache       *proxyCache // nil keeps nothing
	maxBuffered int64       // of an answer, in memory
	maxSpooled  int64       // and in a file

	connectTimeout, sendTimeout, readTimeout time.Duration

	pending *pendingAttempts // of the state
}

// pass compiles a Pass.
func (c *compiler) proxy(l *Location) (content, error) {
	from := l.Proxy
	if from.Protocol < HTTP || from.Protocol > SchemeOfTo {
		return nil, fmt.Errorf("there is no protocol %d", from.Protocol)
	}
	p := &proxy{
		from: from, pending: &c.state.attempts, maxBuffered: cmp.Or(from.BufferBytes, defaultMaxBuffered), maxSpooled: cmp.Or(from.MaxSpool, defaultMaxSpooled),
		connectTimeout: cmp.Or(from.ConnectTimeout, defaultTimeout), sendTimeout: cmp.Or(from.SendTimeout, defaultTimeout), readTimeout: cmp.Or(from.ReadTimeout, defaultTimeout),
	}
	if from.BufferBytes < 0 || from.ConnectTimeout < 0 || from.SendTimeout < 0 || from.ReadTimeout < 0 {
		return nil, errors.New("pass: sizes of buffers and times are not below zero")
	}
	var err error
	if p.cache, err = c.proxyCache(from); err != nil {
		return nil, err
	}
	if err = checkProtocol(from); err != nil {
		return nil, err
	}
	for _, compile := range []func(*Location) error{
		func(l *Location) error { return c.proxyTarget(p, l) },
		func(l *Location) error { return c.proxyURI(p, l) },
		func(l *Location) error { return c.proxyRequest(p) },
		func(l *Location) error { return c.proxyResponse(p, l) },
		func(*Location) error { return p.compileNext() },
	} {
		if err := compile(l); err != nil {
			return nil, fmt.Errorf("pass: %w", err)
		}
	}
	if p.target.bound == nil {
		return p, nil
	}
	if p.cache != nil {
		return nil, fmt.Errorf("answers of %q, which a handler in this process gives, cannot be kept: want no Cache", p.target.text.literal)
	}
	return c.bindHandler(p), nil
}

// misplaced refuses what means nothing to the protocol.
func checkProtocol(p *Proxy) error {
	switch {
	case p.Protocol != HTTPS && p.Protocol != SchemeOfTo && (p.TLS.Config != nil || p.TLS.Name != "" || p.TLS.SNI):
		return errors.New("pass: TLS is said of what is not HTTPS")
	case p.Protocol != FastCGI && (len(p.Params) > 0 || p.ParamIndex != "" || p.SplitPath != "" || p.KeepConn):
		return errors.New("pass: Params, ParamIndex, SplitPath and KeepConn are said of what is not FastCGI")
	case p.Protocol == FastCGI && p.Version != "":
		return errors.New("pass: FastCGI has no Version")
	}
	return nil
}

// passRequest compiles what is sent.
func (c *compiler) proxyRequest(p *proxy) (err error) {
	from := p.from
	if p.method, err = c.text(from.Method); err != nil {
		return err
	}
	if p.method.constant() && p.method.literal != "" && !validToken(p.method.literal) {
		return fmt.Errorf("the method %q is none", p.method.literal)
	}
	if from.Body != nil {
		body, err := c.text(*from.Body)
		if err != nil {
			return err
		}
		p.body = &body
	}
	if from.Protocol == FastCGI {
		p.fastcgi, err = c.fastcgiRules(from)
		return err
	}
	return c.headerRules(&p.header, from)
}

// setNext compiles when another server is asked.
func (p *proxy) compileNext() error {
	n := p.from.Next
	if !n.Off && !n.Error && !n.Timeout && !n.InvalidHeader && n.Statuses == nil {
		n.Error, n.Timeout = true, true
	}
	if n.Tries < 0 || n.For < 0 {
		return errors.New("next: tries and time are not below zero")
	}
	for _, s := range n.Statuses {
		if !slices.Contains([]int{403, 404, 429, 500, 502, 503, 504}, s) {
			return fmt.Errorf("next: no other server is asked after %d: want 403, 404, 429, 500, 502, 503 or 504", s)
		}
	}
	p.next = n
	return nil
}

// validToken reports whether s is a token: RFC 9110, 5.6.2.
func validToken(s string) bool { return httpguts.ValidHeaderFieldName(s) }

// passing is what an exchange keeps of being passed on.
type proxyState struct {
	clientBody *requestBody // the client's body, as far as it was received
	attempts   []*attempts  // of passes: there are several after internal redirects
	target     targetName   // by which variables tell

	upstreamHeader http.Header // of the last answer; it is only read

	firstRequest upstreamRequest // memory: there is only one as a rule
	clientMemory *client.Memory
}

// endPassing gives back what the exchange holds.
func (x *exchange) closeProxyState() {
	if x.proxyState != nil && x.clientBody != nil {
		x.clientBody.close()
	}
}

// forgetPassing is called when nobody asks the exchange any more.
func (x *exchange) recycleProxyState() {
	if p := x.proxyState; p != nil && p.firstRequest.isReusable() {
		x.proxyState = nil
		x.plan.state.releaseProxyState(p)
	}
}

// takePassing and givePassing share memory: a kilobyte for each exchange, which the collector would see to else.
func (s *state) acquireProxyState() *proxyState {
	if p, ok := s.proxyStates.Get().(*proxyState); ok {
		return p
	}
	return new(proxyState)
}

// givePassing forgets what nobody else has. Then it is good for nothing: whoever uses it all the same meets nil, for ever in builds
// that poison.
func (s *state) releaseProxyState(p *proxyState) {
	memory, params := p.clientMemory, p.firstRequest.params
	if memory != nil {
		memory.Reset()
	}
	clear(params)
	if *p = (proxyState{clientMemory: memory}); !poisons {
		p.firstRequest.params = params[:0]
		s.proxyStates.Put(p)
	}
}

// serve implements content.
func (p *proxy) serve(x *exchange) outcome {
	if p.from.Intercept {
		x.interceptsErrors = true
	}
	target, err := p.target.resolve(x)
	if err != nil {
		x.errorf(levelError, "no upstream: %v", err)
		status := targetErrorStatus(err)
		if status != http.StatusBadGateway {
			x.target = targetName{}
		}
		return x.fail(status)
	}
	if target.bound != nil {
		x.useFilters()
		return (&boundHandler{p, target.bound}).respond(x, target.rest, x.target.host)
	}
	if out := p.receiveBody(x); out != proceed {
		return out
	}
	if p.cache != nil {
		x.useFilters()
		return p.serveCached(x, target)
	}
	s := p.newRequest(x, target, nil)
	if x.regexTimedOut {
		return x.fail(http.StatusInternalServerError)
	}
	ctx := x.r.Context()
	if p.from.IgnoreAbort {
		ctx = context.WithoutCancel(ctx)
	}
	s.exchange = x
	resp, err := s.fetch(ctx)
	s.exchange = nil
	if err != nil {
		return p.fail(x, err)
	}
	return p.respond(x, resp)
}

// origin makes requests of an exchange for a cache.
type origin struct {
	proxy  *proxy
	x      *exchange
	target destination
}

// Prepare implements cache.Origin.
func (o *origin) Prepare(opts cache.Ask) (cache.Fetch, error) {
	s := o.proxy.newRequest(o.x, o.target, &opts)
	if o.x.regexTimedOut {
		return nil, errors.New("a pattern has taken too long")
	}
	if opts.Behind {
		return s.fetch, nil
	}
	return func(ctx context.Context) (*http.Response, error) {
		s.exchange = o.x
		defer func() { s.exchange = nil }()
		return s.fetch(ctx)
	}, nil
}

// serveCached answers by the cache.
func (p *proxy) serveCached(x *exchange, target destination) outcome {
	a, err := p.cache.respond(x, &origin{p, x, target})
	if err != nil {
		return p.fail(x, err)
	}
	if a.Passed != nil {
		a.Passed.Header = a.Passed.Header.Clone()
		a.Mark(a.Passed.Header)
		return p.respond(x, a.Passed)
	}
	defer a.Close()
	if out := p.redirectInternally(x, a.Status, a.Header); out != proceed {
		return out
	}
	header := x.w.Header()
	p.response.copyHeader(x, header, a.Header)
	if !ignoresField(p.from.Hide, "Date") { // Age is about it: RFC 9111, 4.2.3
		header["Date"] = a.Header["Date"]
	}
	a.Mark(header)
	if x.parent != nil {
		x.w.WriteHeader(a.Status)
	} else if err := a.Send(x.w, x.withoutRange(x.withConditions(x.r, firstValue(a.Header["Last-Modified"])), firstValue(a.Header["Content-Type"]))); err != nil {
		x.abortResponse(err)
	}
	return responded
}

// failed answers for an upstream that did not.
func (p *proxy) fail(x *exchange, err error) outcome {
	var f *fetchError
	switch {
	case errors.As(err, &f) && f.kind == failureClientBody:
		return x.fail(int(cmp.Or(x.bodyStatus.Load(), http.StatusBadRequest)))
	case x.r.Context().Err() != nil && !p.from.IgnoreAbort:
		x.endWithoutResponse(statusClientGone)
		panic(http.ErrAbortHandler) // a server that does not know of the departure would take nothing for an answer
	case f == nil:
		x.errorf(levelError, "passing the request on: %v", err)
		return x.fail(http.StatusBadGateway)
	}
	return x.fail(f.status)
}

// truncated ends a response whose rest does not come. As in nginx the client gets the head and what has come, and sees that it is not all.
func (x *exchange) abortResponse(err error) {
	if x.r.Context().Err() == nil {
		x.errorf(levelError, "the upstream's answer is not complete: %v", err)
		_ = http.NewResponseController(x.w).Flush() // what cannot be flushed is lost, as the rest is
	}
	panic(http.ErrAbortHandler)
}

// closing closes what nobody can be told about.
func closeQuietly(c io.Closer) { _ = c.Close() }
