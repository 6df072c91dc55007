package front

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"
)

// filters are what a location does to responses, and whether it observes them.
type filters struct {
	fields          []addHeader
	expires         *expires
	added           []func(x *exchange, header http.Header) // fields of modules
	starts          []func(w *writer)                       // add stages by the head alone
	byType          []bodyFilter                            // those of modules, and noChunks
	editors         []editor                                // of byType
	trailers        []addHeader
	noChunks        bool // responses of unknown length end with their connection
	rate, rateAfter text
	sendTimeout     time.Duration // 0 means none
	observes        bool          // responses are changed or observed, apart from sendTimeout
	needsHeader     bool          // a response's fields are read or replaced: see proxyfields.go
}

// filtersKey is all that the filters of locations differ in.
type filtersKey struct {
	rules      *rules
	isBound    bool // the upstream is a bound handler
	intercepts bool // Proxy.Intercept
}

// filters compiles the filters of a location, or returns those of another one with the same key.
func (c *compiler) filters(key filtersKey) (*filters, error) {
	return shared(c, key, func() (*filters, error) { return c.newFilters(key) })
}

// newFilters compiles filters. A bound handler's responses have no timeout unless the Settings set
// one.
func (c *compiler) newFilters(key filtersKey) (*filters, error) {
	s := key.rules.settings
	f := filters{noChunks: s.NoChunks, added: key.rules.effects.fields, starts: key.rules.effects.starts}
	if f.sendTimeout = s.SendTimeout; f.sendTimeout == 0 && !key.isBound {
		f.sendTimeout = defaultTimeout
	}
	var err error
	if f.fields, err = c.addHeaders(s.Header); err != nil {
		return nil, err
	}
	if f.expires, err = c.expires(s.Expires); err != nil {
		return nil, err
	}
	if f.trailers, err = c.addTrailers(s.Trailers); err != nil {
		return nil, err
	}
	if f.rate, err = c.text(s.Rate); err != nil {
		return nil, fmt.Errorf("rate: %w", err)
	}
	if f.rateAfter, err = c.text(s.RateAfter); err != nil {
		return nil, fmt.Errorf("rate after: %w", err)
	}
	f.setBodyFilters(key.rules.effects.bodies)
	f.needsHeader = f.expires != nil || f.added != nil || f.changeBodies() || f.trailers != nil ||
		slices.ContainsFunc(f.fields, func(a addHeader) bool { return a.replace })
	isObserved := key.rules.effects.observes || c.counting() || s.Rate != "" || c.setsLimitRate || key.intercepts
	f.observes = isObserved || f.addsFields() || f.needsHeader
	return &f, nil
}

// addsFields reports whether fields are added to headers.
func (f *filters) addsFields() bool { return f.fields != nil || f.added != nil }

// writer is the content's http.ResponseWriter. Unwrap gives access to the server's other methods.
type writer struct {
	http.ResponseWriter
	x              *exchange
	status         int   // of the response; 0 until it has one
	sent           int64 // bytes of the body that were written to the server
	withheldStatus int   // the status of a response that an error page replaces, else 0
	isBypassed     bool  // a bound handler writes to the ResponseWriter itself
	hijacked       bool
	unwatch        func() bool // of the plan that ends the hijacked connection
	switchBytes    int64       // length of a tunnel's 101 head

	stages   [stageCount]stage // that the body passes; nil where it is not changed
	trailers bool              // trailer fields follow the body
	pace     *rateLimiter      // nil does not limit the rate
	deadline sendDeadline
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(code int) {
	switch {
	case code < 200 && code != http.StatusSwitchingProtocols:
		w.ResponseWriter.WriteHeader(code)
	case w.withheldStatus != 0:
	case w.status != 0:
		if w.stages[holdStage] == nil {
			w.ResponseWriter.WriteHeader(code) // it logs the superfluous call
		}
	case w.x.bodyStatus.Load() != 0 && w.x.errorStatus == 0:
		w.withhold(int(w.x.bodyStatus.Load()))
	case w.x.interceptsErrors && code >= http.StatusMultipleChoices && w.x.hasErrorPage(code):
		w.withhold(code)
	default:
		w.sendHead(code)
	}
}

// withhold drops the response: its header is cleared, and its body discarded.
func (w *writer) withhold(status int) {
	w.withheldStatus = status
	header := w.Header()
	for name := range header {
		if name != "Www-Authenticate" || status != http.StatusUnauthorized {
			delete(header, name)
		}
	}
}

// sendHead runs the filter phase and sends the head, or holds it back until the body's beginning is
// known. An error page has the error's status.
func (w *writer) sendHead(code int) {
	code = w.x.pageStatus(code)
	w.status = code
	if w.x.errorStatus != 0 {
		cleanPageHeader(w.Header(), code)
	}
	if f := w.x.loc.filters; w.x.parent == nil {
		f.changeHeader(w.x, w.Header(), code)
		if w.trailers = f.addsTrailers(w, code); w.trailers {
			f.announceTrailers(w.Header())
		}
		w.startLimits(f)
		if f.changeBodies() && !f.startStages(w) {
			return
		}
	} else if w.x.addedTo != nil && !f.startAddedStages(w) {
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// changeHeader applies the filters to the header of a response.
func (f *filters) changeHeader(x *exchange, header http.Header, code int) {
	if f.expires == nil && !f.addsFields() {
		return
	}
	isDefaultStatus := getsAddedFields(code)
	if f.expires != nil && isDefaultStatus {
		f.expires.set(x, header)
	}
	for i := range f.fields {
		if field := &f.fields[i]; isDefaultStatus || field.always {
			field.add(x, header)
		}
	}
	for _, add := range f.added {
		add(x, header)
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 && w.withheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.withheldStatus != 0 {
		return len(p), nil
	}
	return w.pass(0, p)
}

// WriteString implements io.StringWriter.
func (w *writer) WriteString(s string) (int, error) {
	if w.status == 0 && w.withheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.withheldStatus != 0 || w.changesBody() || w.pace != nil || len(s) > maxPerDeadline {
		return w.Write([]byte(s))
	}
	w.deadline.startWrite(w, int64(len(s)))
	n, err := io.WriteString(w.ResponseWriter, s)
	w.deadline.clear(w)
	w.sent += int64(n)
	return n, err
}

// sendBody writes a part of the body to the server, within the rate limit.
func (w *writer) sendBody(p []byte) (n int, err error) {
	for {
		part := p[n:]
		if w.pace != nil {
			most, err := w.pace.wait(w)
			if err != nil {
				return n, err
			}
			part = part[:min(int64(len(part)), most)]
		}
		part = part[:w.deadline.startWrite(w, int64(len(part)))]
		m, err := w.ResponseWriter.Write(part)
		n += m
		w.sent += int64(m)
		if err != nil || n == len(p) {
			w.deadline.clear(w)
			return n, err
		}
	}
}

// ReadFrom implements io.ReaderFrom. If nothing needs the bytes the server's own ReadFrom applies,
// which may use sendfile.
func (w *writer) ReadFrom(src io.Reader) (n int64, err error) {
	if w.status == 0 && w.withheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.withheldStatus != 0 || w.changesBody() {
		return io.Copy(writeOnly{w}, src)
	}
	whole, from := int64(1<<63-1), src
	limited, _ := src.(*io.LimitedReader)
	if limited != nil { // the kernel copies from a file in one LimitedReader, but not in two
		whole, from = limited.N, limited.R
	}
	for n < whole {
		most := whole - n
		if w.pace != nil {
			allowed, err := w.pace.wait(w)
			if err != nil {
				return n, err
			}
			most = min(most, allowed)
		}
		most = w.deadline.startWrite(w, most)
		m, err := io.Copy(w.ResponseWriter, &io.LimitedReader{R: from, N: most})
		n += m
		w.sent += m
		if limited != nil {
			limited.N -= m
		}
		if err != nil || m < most {
			w.deadline.clear(w)
			return n, err
		}
	}
	w.deadline.clear(w)
	return n, nil
}

// writeOnly hides ReadFrom from io.Copy.
type writeOnly struct{ io.Writer }

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError flushes what has been written, including the compressor's output.
func (w *writer) FlushError() error {
	if w.status == 0 && w.withheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.withheldStatus != 0 {
		return nil
	}
	for i := range w.stages { // holdStage starts those that follow it
		if s := w.stages[i]; s != nil {
			if err := s.Flush(); err != nil {
				return err
			}
		}
	}
	w.deadline.extend(w)
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.deadline.clear(w)
	return err
}

// Hijack implements http.Hijacker if the server does. Later bytes are not counted.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.hijacked = true
		w.unwatch = context.AfterFunc(w.x.plan.expired, func() { conn.Close() })
		if w.status == 0 {
			w.status = http.StatusSwitchingProtocols // hijacking has no other use here
		}
	}
	return conn, rw, err
}

// finish ends the response.
func (w *writer) finish() {
	if w.isBypassed || w.hijacked || w.x.loggedStatus != 0 {
		return
	}
	if w.status == 0 && w.withheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	for i := range w.stages {
		if s := w.stages[i]; s != nil {
			_ = s.Close() // an error means that the client has gone
		}
	}
	if w.trailers {
		w.x.loc.filters.addTrailers(w)
	}
	w.deadline.extend(w)
}

// release releases the stages, also after a panic.
func (w *writer) release() {
	if w.status == 0 && w.x.errorStatus == 0 && !w.x.isComplete {
		w.status = http.StatusInternalServerError // to log
	}
	if w.unwatch != nil {
		w.unwatch()
	}
	for _, s := range w.stages {
		if s != nil {
			s.release()
		}
	}
}

// bodyBytes returns the length of the body that was sent.
func (w *writer) bodyBytes() int64 {
	if w.x.r.Method == http.MethodHead {
		return 0
	}
	return w.sent
}
