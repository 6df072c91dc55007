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
	defaultBuffer = 64 << 10
	// defaultSpool is how much of it is put into a file, as in nginx.
	defaultSpool = 1 << 30
)

// pass is a Pass, compiled: the content that an upstream answers.
type pass struct {
	from *Pass
	to   goal
	uri  uriRule
	sets requestHeader // of HTTP
	cgi  *cgi          // FastCGI, else nil
	tls  *tlsLinks     // of HTTPS; nil if that is not spoken

	method text
	body   *text // instead of the client's
	next   upstream.Next

	answers   answerRules
	cache     *passCache // nil keeps nothing
	bufferMax int64      // of an answer, in memory
	spoolMax  int64      // and in a file

	connectTimeout, sendTimeout, readTimeout time.Duration

	attempts *nursery // of the state
}

// pass compiles a Pass.
func (c *compiler) pass(l *Location) (content, error) {
	from := l.Pass
	if from.Protocol < HTTP || from.Protocol > SchemeOfTo {
		return nil, fmt.Errorf("there is no protocol %d", from.Protocol)
	}
	p := &pass{
		from: from, attempts: &c.state.attempts, bufferMax: cmp.Or(from.BufferBytes, defaultBuffer), spoolMax: cmp.Or(from.MaxSpool, defaultSpool),
		connectTimeout: cmp.Or(from.ConnectTimeout, defaultTimeout), sendTimeout: cmp.Or(from.SendTimeout, defaultTimeout), readTimeout: cmp.Or(from.ReadTimeout, defaultTimeout),
	}
	if from.BufferBytes < 0 || from.ConnectTimeout < 0 || from.SendTimeout < 0 || from.ReadTimeout < 0 {
		return nil, errors.New("pass: sizes of buffers and times are not below zero")
	}
	var err error
	if p.cache, err = c.passCache(from); err != nil {
		return nil, err
	}
	if err = misplaced(from); err != nil {
		return nil, err
	}
	for _, compile := range []func(*Location) error{
		func(l *Location) error { return c.passGoal(p, l) },
		func(l *Location) error { return c.passURI(p, l) },
		func(l *Location) error { return c.passRequest(p) },
		func(l *Location) error { return c.passAnswer(p, l) },
		func(*Location) error { return p.setNext() },
	} {
		if err := compile(l); err != nil {
			return nil, fmt.Errorf("pass: %w", err)
		}
	}
	if p.to.bound == nil {
		return p, nil
	}
	if p.cache != nil {
		return nil, fmt.Errorf("answers of %q, which a handler in this process gives, cannot be kept: want no Cache", p.to.text.literal)
	}
	return c.bind(p), nil
}

// misplaced refuses what means nothing to the protocol.
func misplaced(p *Pass) error {
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
func (c *compiler) passRequest(p *pass) (err error) {
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
		p.cgi, err = c.cgi(from)
		return err
	}
	return c.requestHeader(&p.sets, from)
}

// setNext compiles when another server is asked.
func (p *pass) setNext() error {
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
type passing struct {
	sent  *requestBody // the client's body, as far as it was received
	trail []*trail     // of passes: there are several after internal redirects
	goal  goalName     // by which variables tell

	upstreamHeader http.Header // of the last answer; it is only read

	first  sending // memory: there is only one as a rule
	memory *client.Memory
}

// endPassing gives back what the exchange holds.
func (x *exchange) endPassing() {
	if x.passing != nil && x.sent != nil {
		x.sent.close()
	}
}

// forgetPassing is called when nobody asks the exchange any more.
func (x *exchange) forgetPassing() {
	if p := x.passing; p != nil && p.first.reusable() {
		x.passing = nil
		x.plan.state.givePassing(p)
	}
}

// takePassing and givePassing share memory: a kilobyte for each exchange, which the collector would see to else.
func (s *state) takePassing() *passing {
	if p, ok := s.passings.Get().(*passing); ok {
		return p
	}
	return new(passing)
}

// givePassing forgets what nobody else has. Then it is good for nothing: whoever uses it all the same meets nil, for ever in builds
// that poison.
func (s *state) givePassing(p *passing) {
	memory, params := p.memory, p.first.params
	if memory != nil {
		memory.Reset()
	}
	clear(params)
	if *p = (passing{memory: memory}); !poisons {
		p.first.params = params[:0]
		s.passings.Put(p)
	}
}

// serve implements content.
func (p *pass) serve(x *exchange) outcome {
	if p.from.Intercept {
		x.intercept = true
	}
	to, err := p.to.find(x)
	if err != nil {
		x.errorf(levelError, "no upstream: %v", err)
		status := unfound(err)
		if status != http.StatusBadGateway {
			x.goal = goalName{}
		}
		return x.fail(status)
	}
	if to.bound != nil {
		x.filter()
		return (&bound{p, to.bound}).answer(x, to.uri, x.goal.host)
	}
	if out := p.receive(x); out != proceed {
		return out
	}
	if p.cache != nil {
		x.filter()
		return p.serveCached(x, to)
	}
	s := p.prepare(x, to, nil)
	if x.stuck {
		return x.fail(http.StatusInternalServerError)
	}
	ctx := x.r.Context()
	if p.from.IgnoreAbort {
		ctx = context.WithoutCancel(ctx)
	}
	s.live = x
	resp, err := s.fetch(ctx)
	s.live = nil
	if err != nil {
		return p.failed(x, err)
	}
	return p.answer(x, resp)
}

// origin makes requests of an exchange for a cache.
type origin struct {
	pass *pass
	x    *exchange
	to   destination
}

// Prepare implements cache.Origin.
func (o *origin) Prepare(ask cache.OriginRequest) (cache.Fetch, error) {
	s := o.pass.prepare(o.x, o.to, &ask)
	if o.x.stuck {
		return nil, errors.New("a pattern has taken too long")
	}
	if ask.Behind {
		return s.fetch, nil
	}
	return func(ctx context.Context) (*http.Response, error) {
		s.live = o.x
		defer func() { s.live = nil }()
		return s.fetch(ctx)
	}, nil
}

// serveCached answers by the cache.
func (p *pass) serveCached(x *exchange, to destination) outcome {
	a, err := p.cache.answer(x, &origin{p, x, to})
	if err != nil {
		return p.failed(x, err)
	}
	if a.Passed != nil {
		a.Passed.Header = a.Passed.Header.Clone()
		a.Mark(a.Passed.Header)
		return p.answer(x, a.Passed)
	}
	defer a.Close()
	if out := p.divert(x, a.Status, a.Header); out != proceed {
		return out
	}
	header := x.w.Header()
	p.answers.copy(x, header, a.Header)
	if !ignoresField(p.from.Hide, "Date") { // Age is about it: RFC 9111, 4.2.3
		header["Date"] = a.Header["Date"]
	}
	a.Mark(header)
	if x.parent != nil {
		x.w.WriteHeader(a.Status)
	} else if err := a.Send(x.w, x.whole(x.judged(x.r, first(a.Header["Last-Modified"])), first(a.Header["Content-Type"]))); err != nil {
		x.truncated(err)
	}
	return answered
}

// failed answers for an upstream that did not.
func (p *pass) failed(x *exchange, err error) outcome {
	var f *fetchError
	switch {
	case errors.As(err, &f) && f.kind == badBody:
		return x.fail(int(cmp.Or(x.bodyStatus.Load(), http.StatusBadRequest)))
	case x.r.Context().Err() != nil && !p.from.IgnoreAbort:
		x.unanswered(statusClientGone)
		panic(http.ErrAbortHandler) // a server that does not know of the departure would take nothing for an answer
	case f == nil:
		x.errorf(levelError, "passing the request on: %v", err)
		return x.fail(http.StatusBadGateway)
	}
	return x.fail(f.status)
}

// truncated ends a response whose rest does not come. As in nginx the client gets the head and what has come, and sees that it is not all.
func (x *exchange) truncated(err error) {
	if x.r.Context().Err() == nil {
		x.errorf(levelError, "the upstream's answer is not complete: %v", err)
		_ = http.NewResponseController(x.w).Flush() // what cannot be flushed is lost, as the rest is
	}
	panic(http.ErrAbortHandler)
}

// closing closes what nobody can be told about.
func closing(c io.Closer) { _ = c.Close() }
