package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/internal/wire/http1"
)

// boundCall is a request other than the client's with the writer for its response, in one allocation.
type boundCall struct {
	writer  boundWriter
	request http.Request
}

// callBound responds by a bound handler. The handler sees the request as over the network, except that
// RemoteAddr, TLS, the protocol version and the context are the client's. rest is what followed the
// handler's name in a variable.
func (p *proxy) callBound(x *core.Exchange, handler http.Handler, rest string) core.Outcome {
	q := p.boundRequestOf(x, rest)
	r, w := x.Request, (*boundWriter)(nil)
	if p.differs(x, &q) || q.host != r.Host && (x.HandlerHasRequest || !ownsRequest(x)) {
		call := new(boundCall)
		if err := p.fillRequest(x, &call.request, &q); err != nil {
			x.Errorf(errorlog.LevelError, "the request for the handler: %v", err)
			return x.Fail(http.StatusBadGateway)
		}
		r, w = &call.request, &call.writer
	} else {
		if q.host != r.Host {
			// in place: a copy would be most of the allocated bytes, and 2 to 6 % of the CPU time of a
			// bound handler's request
			r.Host = q.host
		}
		w, x.HandlerHasRequest = new(boundWriter), true
	}
	*w = boundWriter{ResponseWriter: x.HandlerWriter(), x: x, rules: p.response}
	if x.Redirects > 0 && len(x.Response.Header()) > 0 {
		earlier := takeEarlier(x.Response.Header())
		w.earlier = &earlier
	}
	if r.ProtoMajor == 1 {
		handler.ServeHTTP(boundHijacker{w}, r)
	} else { // as that of the server, it is no http.Hijacker: programs look for it
		handler.ServeHTTP(w, r)
	}
	w.applyRules(http.StatusOK) // applies the rules to a head that the handler leaves to the server
	w.x = nil                   // the handler may keep w, but not the exchange
	if w.redirectTo == nil {
		return core.Responded
	}
	return p.redirectBound(x, w)
}

// redirectBound drops a bound handler's response, and redirects to where it points. Inside callBound
// it would double what the stack of each request needs.
func (p *proxy) redirectBound(x *core.Exchange, w *boundWriter) core.Outcome {
	x.Response.IsBypassed = false
	header := x.Response.Header()
	redirected := header.Clone()
	clear(header)
	if w.earlier != nil {
		w.earlier.precede(header)
	}
	// The handler may have read the client's body.
	return p.response.accelRedirect(x, *w.redirectTo, redirected,
		!hasBody(x) || x.Received != nil && x.Received.IsAvailable())
}

// ownsRequest reports whether only the front and a server use a request: the server calls the front
// directly, and does not read the request's Host afterwards.
func ownsRequest(x *core.Exchange) bool {
	s, ok := x.Request.Context().Value(http.ServerContextKey).(*http.Server)
	return ok && s.Handler == x.Plan.Handler
}

// boundRequest is the request that the handler receives.
type boundRequest struct {
	method, host, requestTarget string
	header                      http.Header // nil is the client's
}

func (p *proxy) boundRequestOf(x *core.Exchange, rest string) boundRequest {
	q := boundRequest{method: p.methodFor(x), host: p.hostFor(x),
		requestTarget: p.uri.requestTarget(x, rest), header: p.boundHeader(x)}
	if x.Parent != nil {
		// Variables show the response as that of an upstream. The handler gets its own header to change.
		ensureState(x).upstreamHeader = x.Response.Header()
		if q.header == nil {
			q.header = x.Request.Header.Clone()
		}
	}
	return q
}

// differs reports whether q differs from the client's request, apart from the host.
func (p *proxy) differs(x *core.Exchange, q *boundRequest) bool {
	r := x.Request
	return q.header != nil || q.method != r.Method || q.requestTarget != r.RequestURI || p.body != nil ||
		p.from.NoBody || x.Method != r.Method || x.Received != nil
}

// fillRequest makes r a copy of the client's request with what differs, and with the body that an
// upstream would receive.
func (p *proxy) fillRequest(x *core.Exchange, r *http.Request, q *boundRequest) (err error) {
	*r = *x.Request
	r.Method, r.Host, r.RequestURI = q.method, q.host, q.requestTarget
	if q.header != nil {
		r.Header = q.header
	}
	switch {
	case p.body != nil:
		text := p.body.Eval(x)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	case p.from.NoBody, x.Method != x.Request.Method:
		r.Body, r.ContentLength = http.NoBody, 0
	case x.Received != nil:
		r.Body, err = x.Received.Open()
	}
	if err == nil && q.requestTarget != x.Request.RequestURI {
		r.URL, err = url.ParseRequestURI(q.requestTarget)
	}
	return err
}

// boundHeader returns the header that an upstream would receive, or nil if that is the client's.
func (p *proxy) boundHeader(x *core.Exchange) http.Header {
	from, h := x.Request.Header, &p.header
	if !h.dropsHeader && !h.changesHeader(x, from) {
		return nil
	}
	to := h.build(x, false, new(headerMemory))
	if length := from["Content-Length"]; length != nil && !h.dropsHeader && p.body == nil && !p.from.NoBody {
		to["Content-Length"] = length // handlers expect it
	}
	return to
}

// changesHeader reports whether the rules change the client's header.
func (h *headerRules) changesHeader(x *core.Exchange, from http.Header) bool {
	for i := range h.fields {
		f := &h.fields[i]
		if values := from[f.Name]; len(values) != 1 || values[0] != f.Value.Eval(x) {
			return true
		}
	}
	for name := range from {
		switch {
		case h.sets[name] && !slices.ContainsFunc(h.fields, func(f core.SetField) bool { return f.Name == name }):
			return true // the field is not sent
		case !x.Host.Fields.Allows(name), http1.ConcernsConnection(name), name == "Expect":
			return true
		}
	}
	return false
}

// boundWriter is the handler's http.ResponseWriter if its response may be changed. Unwrap gives
// access to the server's other methods.
type boundWriter struct {
	http.ResponseWriter
	x     *core.Exchange
	rules *responseRules

	headWritten bool
	redirectTo  *string        // X-Accel-Redirect: the handler's body is discarded
	earlier     *earlierFields // of the response that has led here, if any
}

// Unwrap is for http.ResponseController.
func (w *boundWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// applyRules applies the rules to the head of a response with a status, and reports whether the
// response is sent. As in nginx an error page precedes X-Accel-Redirect.
func (w *boundWriter) applyRules(status int) bool {
	if w.headWritten {
		return w.redirectTo == nil
	}
	w.headWritten = true
	header := w.Header()
	if w.rules.canonicalize(header) {
		if to := header["X-Accel-Redirect"]; len(to) > 0 && w.rules.mayRedirect && !w.x.Intercepts(status) {
			target := to[0] // the handler may still change the header
			w.redirectTo = &target
			return false
		}
		if w.x.Parent == nil {
			w.rules.apply(w.x, header)
		}
	}
	if w.earlier != nil {
		w.earlier.precede(header)
	}
	return true
}

// WriteHeader implements http.ResponseWriter.
func (w *boundWriter) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols || w.applyRules(status) {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *boundWriter) Write(p []byte) (int, error) {
	if !w.applyRules(http.StatusOK) {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// WriteString implements io.StringWriter.
func (w *boundWriter) WriteString(s string) (int, error) {
	if !w.applyRules(http.StatusOK) {
		return len(s), nil
	}
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom implements io.ReaderFrom.
func (w *boundWriter) ReadFrom(src io.Reader) (int64, error) {
	if !w.applyRules(http.StatusOK) {
		return io.Copy(io.Discard, src)
	}
	return io.Copy(w.ResponseWriter, src)
}

// Flush implements http.Flusher.
func (w *boundWriter) Flush() { _ = w.FlushError() }

// FlushError flushes what has been written.
func (w *boundWriter) FlushError() error {
	if !w.applyRules(http.StatusOK) {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// boundHijacker is a boundWriter for HTTP/1.
type boundHijacker struct{ *boundWriter }

// Hijack implements http.Hijacker if the server does.
func (w boundHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.headWritten = true // there is no head to send
	}
	return nc, rw, err
}

// canonicalize spells the names of fields as the rules about them do. It reports whether the rules
// may change the header or replace the response.
func (r *responseRules) canonicalize(header http.Header) (isAffected bool) {
	for name, values := range header {
		if r.fateOfOwn(name) == 0 {
			continue
		}
		isAffected = true
		if key := http.CanonicalHeaderKey(name); key != name {
			delete(header, name)
			header[key] = append(header[key], values...)
		}
	}
	return isAffected
}

func (r *responseRules) apply(x *core.Exchange, header http.Header) {
	if rate := header["X-Accel-Limit-Rate"]; len(rate) > 0 && r.mayLimitRate {
		x.LimitRate = rate[0]
	}
	for name := range header {
		if r.fateOfOwn(name)&fieldIsDropped != 0 {
			delete(header, name)
		}
	}
	r.rewriteFields(x, header)
}
