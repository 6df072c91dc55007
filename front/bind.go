package front

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/tarehq/tare/internal/roundtrip"
)

// bound is the content that a handler in the same process answers. It sees the request as it would over the network, but that RemoteAddr,
// TLS, the protocol's version and the context are the client's.
type bound struct {
	*pass
	handler http.Handler
}

// bind compiles a Pass to a handler.
func (c *compiler) bind(p *pass) content { return &bound{p, p.to.bound} }

// boundCall is the memory of a call where the request differs from the client's, or its answer is looked at.
type boundCall struct {
	boundWriter
	request http.Request
}

// serve implements content.
func (b *bound) serve(x *exchange) outcome {
	if b.from.Intercept {
		x.intercept = true
	}
	return b.answer(x, "", b.to.name.host)
}

// answer has the handler answer. behind is a URI that a variable had.
func (b *bound) answer(x *exchange, behind, host string) outcome {
	q := boundRequest{method: b.method.of(x), host: x.asked, target: b.uri.target(x, behind), header: b.header(x)}
	if q.method == "" {
		q.method = x.method
	}
	if x.parent != nil {
		b.advise(x, &q)
	}
	if b.from.Protocol != FastCGI {
		q.host = host
		if b.sets.host != nil {
			if said := b.sets.host.of(x); said != "" {
				q.host = said
			}
		}
	}
	var w *boundWriter
	r := x.r
	differs := b.differs(x, &q)
	if !differs && q.host != r.Host {
		if differs = x.shown || !x.plan.handler.owns(r); !differs {
			r.Host = q.host // in place: a copy would be most of what is allocated, and 2 to 6 % of a bound handler's request
		}
	}
	if differs {
		call := new(boundCall)
		if err := b.fill(x, &call.request, &q); err != nil {
			x.errorf(levelError, "the request for the handler: %v", err)
			return x.fail(http.StatusBadGateway)
		}
		r, w = &call.request, &call.boundWriter
	} else if b.answers.sees {
		w = new(boundWriter)
	}
	x.shown = x.shown || r == x.r
	if !b.answers.sees {
		b.handler.ServeHTTP(x.w, r)
		return answered
	}
	*w = boundWriter{ResponseWriter: x.w, x: x, rules: &b.answers}
	b.handler.ServeHTTP(w, r)
	w.look()  // the head of an answer that the handler leaves to the server
	w.x = nil // the exchange is not the handler's to keep
	if w.diverted == "" {
		return answered
	}
	header := x.w.Header()
	said := header.Clone()
	clear(header)
	return x.accelRedirect(w.diverted, said, !hasBody(x) || x.hasReceived() && x.sent.again()) // the handler may have read the client's
}

// advise has the handler answer a subrequest: variables tell of the answer what they would of an upstream's, and what the handler does to
// the header of its request is not done to the client's.
func (b *bound) advise(x *exchange, q *boundRequest) {
	if x.passing == nil {
		x.passing = x.plan.state.takePassing()
	}
	x.upstreamHeader = x.w.Header()
	if q.header == nil {
		q.header = x.r.Header.Clone()
	}
}

// boundRequest is how a request is to be.
type boundRequest struct {
	method, host, target string
	header               http.Header // nil is the client's
}

// differs reports whether it is not the client's, but for the host.
func (b *bound) differs(x *exchange, q *boundRequest) bool {
	r := x.r
	return q.header != nil || q.method != r.Method || q.target != r.RequestURI || b.body != nil || b.from.NoBody || x.method != r.Method || x.hasReceived()
}

// hasReceived reports whether the request's body was received for an upstream: nobody can read it from the client any more.
func (x *exchange) hasReceived() bool { return x.passing != nil && x.sent != nil }

// fill makes the request.
func (b *bound) fill(x *exchange, r *http.Request, q *boundRequest) error {
	*r = *x.r
	r.Method, r.Host, r.RequestURI = q.method, q.host, q.target
	if q.header != nil {
		r.Header = q.header
	}
	err := b.setBody(x, r)
	if err != nil || q.target == x.r.RequestURI {
		return err
	}
	r.URL, err = url.ParseRequestURI(q.target)
	return err
}

// setBody has the request have the body that an upstream would get.
func (b *bound) setBody(x *exchange, r *http.Request) (err error) {
	switch {
	case b.body != nil:
		text := b.body.of(x)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	case b.from.NoBody, x.method != x.r.Method:
		r.Body, r.ContentLength = http.NoBody, 0
	case x.hasReceived():
		r.Body, err = x.sent.open()
	}
	return err
}

// header is the header that an upstream would get, or nil if that is the client's.
func (b *bound) header(x *exchange) http.Header {
	from := x.r.Header
	h := &b.sets
	if !h.none && !h.changes(x, from) {
		return nil
	}
	to := make(http.Header, len(from)+len(h.fields))
	if !h.none {
		copyRequestFields(to, from, h.sets, x.host.fields)
		if length := from["Content-Length"]; length != nil && b.body == nil && !b.from.NoBody {
			to["Content-Length"] = length // a server's handler sees it
		}
	}
	h.fill(x, to)
	h.setConnection(x, to, &request{})
	return to
}

// changes reports whether the header differs from the client's.
func (h *requestHeader) changes(x *exchange, from http.Header) bool {
	for i := range h.fields {
		f := &h.fields[i]
		if values := from[f.name]; len(values) != 1 || values[0] != f.value.of(x) {
			return true
		}
	}
	for name := range from {
		switch {
		case h.sets[name] && !h.sends(name):
			return true
		case !x.host.fields.pass(name), roundtrip.ConcernsConnection(name), name == "Expect":
			return true
		}
	}
	return false
}

// sends reports whether a field of that name is set to something.
func (h *requestHeader) sends(name string) bool {
	for i := range h.fields {
		if h.fields[i].name == name {
			return true
		}
	}
	return false
}

// boundWriter is what a handler writes to where its answer may be changed. What else the server's can do is found by Unwrap.
type boundWriter struct {
	http.ResponseWriter
	x     *exchange
	rules *answerRules

	wrote    bool
	diverted string // where something else answers: what the handler writes goes nowhere
}

// Unwrap lets http.ResponseController find the rest.
func (w *boundWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// look applies the rules to the head, and reports whether the answer goes out.
func (w *boundWriter) look() bool {
	if w.wrote {
		return w.diverted == ""
	}
	w.wrote = true
	header := w.Header()
	if !w.rules.concern(header) {
		return true
	}
	if to := header["X-Accel-Redirect"]; len(to) > 0 && w.rules.mayRedirect {
		w.diverted = to[0]
		return w.diverted == ""
	}
	if w.x.parent == nil {
		w.rules.apply(w.x, header)
	}
	return true
}

// WriteHeader implements http.ResponseWriter.
func (w *boundWriter) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols || w.look() {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *boundWriter) Write(p []byte) (int, error) {
	if !w.look() {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// WriteString implements io.StringWriter.
func (w *boundWriter) WriteString(s string) (int, error) {
	if !w.look() {
		return len(s), nil
	}
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom implements io.ReaderFrom.
func (w *boundWriter) ReadFrom(src io.Reader) (int64, error) {
	if !w.look() {
		return io.Copy(io.Discard, src)
	}
	return io.Copy(w.ResponseWriter, src)
}

// Flush implements http.Flusher.
func (w *boundWriter) Flush() { _ = w.FlushError() }

// FlushError sends what has been written so far.
func (w *boundWriter) FlushError() error {
	if !w.look() {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker, where the server does.
func (w *boundWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.wrote = true // there is no head of ours
	}
	return nc, rw, err
}

// concern reports whether the rules may change a header, or do something else because of it.
func (r *answerRules) concern(header http.Header) bool {
	for name := range header {
		if r.marked.has(name) {
			return true
		}
	}
	return false
}

// apply changes a header as the rules say.
func (r *answerRules) apply(x *exchange, header http.Header) {
	if rate := header["X-Accel-Limit-Rate"]; len(rate) > 0 && r.mayLimitRate {
		x.limitOf = rate[0]
	}
	for name := range header {
		if r.hidden[name] {
			delete(header, name)
		}
	}
	r.rewrite(x, header)
}
