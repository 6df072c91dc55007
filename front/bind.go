package front

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// boundHandler is the content of a location whose upstream is a handler of this program. The
// handler sees the request as over the network, except that RemoteAddr, TLS, the protocol version
// and the context are the client's.
type boundHandler struct {
	proxy   *proxy
	handler http.Handler
}

// bindHandler compiles a Proxy to a bound handler.
func (c *compiler) bindHandler(p *proxy) content { return &boundHandler{p, p.target.bound} }

// boundCall is the memory of a call with a request other than the client's, or with a response that
// is inspected.
type boundCall struct {
	writer  boundWriter
	request http.Request
}

// serve implements content.
func (b *boundHandler) serve(x *exchange) outcome {
	if b.proxy.from.Intercept {
		x.interceptsErrors = true
	}
	return b.respond(x, "", b.proxy.target.name.host)
}

// respond calls the handler. rest is what followed the handler's name in a variable.
func (b *boundHandler) respond(x *exchange, rest, host string) outcome {
	q := boundRequest{method: b.proxy.method.eval(x), host: x.hostHeader,
		requestTarget: b.proxy.uri.requestTarget(x, rest), header: b.buildHeader(x)}
	if q.method == "" {
		q.method = x.method
	}
	if x.parent != nil {
		b.prepareSubrequest(x, &q)
	}
	if b.proxy.from.Protocol != "fastcgi" {
		q.host = host
		if b.proxy.header.host != nil {
			if hostValue := b.proxy.header.host.eval(x); hostValue != "" {
				q.host = hostValue
			}
		}
	}
	var w *boundWriter
	r := x.r
	differs := b.differs(x, &q)
	if !differs && q.host != r.Host {
		if differs = x.handlerHasRequest || !x.plan.handler.owns(r); !differs {
			// in place: a copy would be most of the allocated bytes, and 2 to 6 % of the CPU time
			// of a bound handler's request
			r.Host = q.host
		}
	}
	if differs {
		call := new(boundCall)
		if err := b.fillRequest(x, &call.request, &q); err != nil {
			x.errorf(levelError, "the request for the handler: %v", err)
			return x.fail(http.StatusBadGateway)
		}
		r, w = &call.request, &call.writer
	} else {
		w = new(boundWriter)
	}
	x.handlerHasRequest = x.handlerHasRequest || r == x.r
	*w = boundWriter{ResponseWriter: x.handlerWriter(), x: x, rules: b.proxy.response}
	if x.redirects > 0 && len(x.w.Header()) > 0 {
		earlier := takeEarlier(x.w.Header())
		w.earlier = &earlier
	}
	b.handler.ServeHTTP(writerFor(w, r), r)
	w.applyRules() // applies the rules to a head that the handler leaves to the server
	w.x = nil      // the handler may keep w, but not the exchange
	if w.redirectTo == "" {
		return responded
	}
	x.w.isBypassed = false
	header := x.w.Header()
	redirected := header.Clone()
	clear(header)
	if w.earlier != nil {
		w.earlier.precede(header)
	}
	// The handler may have read the client's body.
	return b.proxy.response.accelRedirect(x, w.redirectTo, redirected,
		!hasBody(x) || x.hasReceived() && x.proxy.clientBody.IsAvailable())
}

// prepareSubrequest prepares the call for a subrequest. Variables show the response as that of an
// upstream. The handler gets its own header to change.
func (b *boundHandler) prepareSubrequest(x *exchange, q *boundRequest) {
	if x.proxy == nil {
		x.proxy = x.plan.state.acquireProxyState()
	}
	x.proxy.upstreamHeader = x.w.Header()
	if q.header == nil {
		q.header = x.r.Header.Clone()
	}
}

// boundRequest is the request that the handler receives.
type boundRequest struct {
	method, host, requestTarget string
	header                      http.Header // nil is the client's
}

// differs reports whether q differs from the client's request, apart from the host.
func (b *boundHandler) differs(x *exchange, q *boundRequest) bool {
	r := x.r
	return q.header != nil || q.method != r.Method || q.requestTarget != r.RequestURI || b.proxy.body != nil ||
		b.proxy.from.NoBody || x.method != r.Method || x.hasReceived()
}

// hasReceived reports whether the request's body was read for an upstream, so that it cannot be
// read from the client.
func (x *exchange) hasReceived() bool { return x.proxy != nil && x.proxy.clientBody != nil }

// fillRequest sets r to the handler's request.
func (b *boundHandler) fillRequest(x *exchange, r *http.Request, q *boundRequest) error {
	*r = *x.r
	r.Method, r.Host, r.RequestURI = q.method, q.host, q.requestTarget
	if q.header != nil {
		r.Header = q.header
	}
	err := b.setBody(x, r)
	if err != nil || q.requestTarget == x.r.RequestURI {
		return err
	}
	r.URL, err = url.ParseRequestURI(q.requestTarget)
	return err
}

// setBody sets the body that an upstream would receive.
func (b *boundHandler) setBody(x *exchange, r *http.Request) (err error) {
	switch {
	case b.proxy.body != nil:
		text := b.proxy.body.eval(x)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	case b.proxy.from.NoBody, x.method != x.r.Method:
		r.Body, r.ContentLength = http.NoBody, 0
	case x.hasReceived():
		r.Body, err = x.proxy.clientBody.Open()
	}
	return err
}

// buildHeader returns the header that an upstream would receive, or nil if that is the client's.
func (b *boundHandler) buildHeader(x *exchange) http.Header {
	from := x.r.Header
	h := &b.proxy.header
	if !h.dropsHeader && !h.changesHeader(x, from) {
		return nil
	}
	to := make(http.Header, len(from)+len(h.fields))
	if !h.dropsHeader {
		h.copyFields(to, from, x.host.fields)
		if length := from["Content-Length"]; length != nil && b.proxy.body == nil && !b.proxy.from.NoBody {
			to["Content-Length"] = length // handlers expect it
		}
	}
	h.addFields(x, to)
	h.setConnection(x, to)
	return to
}

// changesHeader reports whether the rules change the client's header.
func (h *headerRules) changesHeader(x *exchange, from http.Header) bool {
	for i := range h.fields {
		f := &h.fields[i]
		if values := from[f.name]; len(values) != 1 || values[0] != f.value.eval(x) {
			return true
		}
	}
	for name := range from {
		switch {
		case h.sets[name] && !h.sendsField(name):
			return true
		case !x.host.fields.allows(name), http1.ConcernsConnection(name), name == "Expect":
			return true
		}
	}
	return false
}

// sendsField reports whether a field is set to a value.
func (h *headerRules) sendsField(name string) bool {
	for i := range h.fields {
		if h.fields[i].name == name {
			return true
		}
	}
	return false
}

// boundWriter is the handler's http.ResponseWriter if its response may be changed. Unwrap gives
// access to the server's other methods.
type boundWriter struct {
	http.ResponseWriter
	x     *exchange
	rules *responseRules

	headWritten bool
	redirectTo  string         // X-Accel-Redirect: the handler's body is discarded
	earlier     *earlierFields // of the response that has led here, if any
}

// Unwrap is for http.ResponseController.
func (w *boundWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// applyRules applies the rules to the head, and reports whether the response is sent.
func (w *boundWriter) applyRules() bool {
	if w.headWritten {
		return w.redirectTo == ""
	}
	w.headWritten = true
	header := w.Header()
	if w.rules.affects(header) {
		w.rules.canonicalize(header)
		if to := header["X-Accel-Redirect"]; len(to) > 0 && w.rules.mayRedirect {
			w.redirectTo = to[0]
			return w.redirectTo == ""
		}
		if w.x.parent == nil {
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
	if status < http.StatusOK && status != http.StatusSwitchingProtocols || w.applyRules() {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *boundWriter) Write(p []byte) (int, error) {
	if !w.applyRules() {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// WriteString implements io.StringWriter.
func (w *boundWriter) WriteString(s string) (int, error) {
	if !w.applyRules() {
		return len(s), nil
	}
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom implements io.ReaderFrom.
func (w *boundWriter) ReadFrom(src io.Reader) (int64, error) {
	if !w.applyRules() {
		return io.Copy(io.Discard, src)
	}
	return io.Copy(w.ResponseWriter, src)
}

// Flush implements http.Flusher.
func (w *boundWriter) Flush() { _ = w.FlushError() }

// FlushError flushes what has been written.
func (w *boundWriter) FlushError() error {
	if !w.applyRules() {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker if the server does.
func (w *boundWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.headWritten = true // there is no head to send
	}
	return nc, rw, err
}

// writerFor returns what a handler receives. Over HTTP/2 it is no http.Hijacker, as that of the
// server: programs look for it.
func writerFor(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if _, ok := w.(http.Hijacker); !ok || r.ProtoMajor == 1 {
		return w
	}
	return streamWriter{w}
}

// streamWriter is a ResponseWriter without methods of a connection.
type streamWriter struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (w streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteString implements io.StringWriter.
func (w streamWriter) WriteString(s string) (int, error) { return io.WriteString(w.ResponseWriter, s) }

// Flush implements http.Flusher.
func (w streamWriter) Flush() { _ = w.FlushError() }

// FlushError flushes what has been written.
func (w streamWriter) FlushError() error { return http.NewResponseController(w.ResponseWriter).Flush() }

// affects reports whether the rules may change a header or replace the response.
func (r *responseRules) affects(header http.Header) bool {
	for name := range header {
		if r.fateOfOwn(name) != 0 {
			return true
		}
	}
	return false
}

// canonicalize spells the names of fields that the rules concern as they do.
func (r *responseRules) canonicalize(header http.Header) {
	for name, values := range header {
		if key := http.CanonicalHeaderKey(name); key != name && r.fateOfOwn(name) != 0 {
			delete(header, name)
			header[key] = append(header[key], values...)
		}
	}
}

// apply applies the rules to a header.
func (r *responseRules) apply(x *exchange, header http.Header) {
	if rate := header["X-Accel-Limit-Rate"]; len(rate) > 0 && r.mayLimitRate {
		x.limitRate = rate[0]
	}
	for name := range header {
		if r.fateOfOwn(name)&fieldIsDropped != 0 {
			delete(header, name)
		}
	}
	r.rewriteFields(x, header)
}
