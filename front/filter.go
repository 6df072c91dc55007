package front

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// filters are what a location does to answers, and that it wants to see them.
type filters struct {
	fields          []addHeader
	expires         *expires
	charset         *mediaTypes // adds it; nil does not
	sub             *subFilter  // nil replaces nothing
	gzip            *gzipFilter // nil compresses nothing
	noChunks        bool        // what has no length ends with its connection
	rate, rateAfter text
	sendTimeout     time.Duration // 0 is no bound
	onlySendTimeout bool          // there is nothing but sendTimeout
}

// filters compiles what happens to answers. They are nil if answers go out as they are and nobody wants to know of them. A
// bound handler's answers are not bounded in time unless the Settings say so.
func (c *compiler) filters(s *Settings, pass *Proxy) (*filters, error) {
	f := &filters{noChunks: s.NoChunks}
	bound := pass != nil && c.options.bound[string(pass.To)] != nil
	if f.sendTimeout = s.SendTimeout; f.sendTimeout == 0 && !bound {
		f.sendTimeout = defaultTimeout
	}
	var err error
	if f.fields, err = c.addHeaders(s.Header); err != nil {
		return nil, err
	}
	if f.expires, err = c.expires(s.Expires); err != nil {
		return nil, err
	}
	if f.sub, err = c.subFilter(s.SubFilter); err != nil {
		return nil, err
	}
	if f.gzip, err = c.gzip(s.Gzip); err != nil {
		return nil, err
	}
	if f.rate, err = c.text(s.Rate); err != nil {
		return nil, fmt.Errorf("rate: %w", err)
	}
	if f.rateAfter, err = c.text(s.RateAfter); err != nil {
		return nil, fmt.Errorf("rate after: %w", err)
	}
	if s.Files.Charset != "" {
		f.charset = c.mediaTypes(&s.Files)
	}
	isObserved := len(s.Logs) > 0 || c.counting() || s.Rate != "" || c.setsLimitRate || pass != nil && pass.Intercept
	f.onlySendTimeout = !isObserved && len(f.fields) == 0 && f.expires == nil && f.charset == nil && !f.changesBody()
	if f.onlySendTimeout && f.sendTimeout == 0 {
		return nil, nil
	}
	return f, nil
}

// writer is what the content writes to where something sees or changes the answer. It is as good as the one that it is put
// around: what else that one can do is found by Unwrap.
type writer struct {
	http.ResponseWriter
	x              *exchange
	status         int   // of the answer; 0 until it has one
	sent           int64 // bytes of the body as the server was given them
	withheldStatus int   // the status of an answer that is not passed on, because a page answers instead
	hijacked       bool
	switchBytes    int64 // bytes of the head of a 101 that a tunnel begins with

	held     *heldResponse // the beginning of an answer of which it is not known how to send it
	replacer *replacer     // replaces strings in the body; nil leaves it
	gzip     *gzipWriter   // compresses the body; nil leaves it
	pace     *rateLimiter  // nil is no bound of the rate
	deadline sendDeadline
}

// Unwrap lets http.ResponseController find the rest.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(code int) {
	switch {
	case code < 200 && code != http.StatusSwitchingProtocols:
		w.ResponseWriter.WriteHeader(code)
	case w.withheldStatus != 0:
	case w.status != 0:
		if w.held == nil {
			w.ResponseWriter.WriteHeader(code) // it says that this is one too many
		}
	case w.x.bodyStatus.Load() != 0 && w.x.errorStatus == 0:
		w.withhold(int(w.x.bodyStatus.Load()))
	case w.x.interceptsErrors && code >= http.StatusMultipleChoices && w.x.hasErrorPage(code):
		w.withhold(code)
	default:
		w.sendHead(code)
	}
}

// withhold drops an answer: what the content writes goes nowhere, and its header is forgotten.
func (w *writer) withhold(status int) {
	w.withheldStatus = status
	header := w.Header()
	for name := range header {
		if name != "Www-Authenticate" || status != http.StatusUnauthorized {
			delete(header, name)
		}
	}
}

// commit runs the filter phase. It may have to wait for the beginning of the body. What is an error's page has the error's
// status, whatever its content says.
func (w *writer) sendHead(code int) {
	code = w.x.pageStatus(code)
	w.status = code
	if w.x.errorStatus != 0 {
		cleanPageHeader(w.Header(), code)
	}
	if f := w.x.loc.filters; f != nil && w.x.parent == nil {
		f.changeHeader(w.x, w.Header(), code)
		w.startLimits(f)
		if f.changesBody() && !f.startBodyFilters(w) {
			return
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

// head changes the header of an answer.
func (f *filters) changeHeader(x *exchange, header http.Header, code int) {
	if f.charset != nil && code != http.StatusMovedPermanently && code != http.StatusFound {
		f.charset.addCharset(header)
	}
	if f.expires == nil && f.fields == nil {
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
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 && w.withheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.withheldStatus != 0:
		return len(p), nil
	case w.held != nil:
		return w.held.write(w, p)
	case w.replacer != nil:
		return w.replacer.Write(p)
	}
	return w.encode(p)
}

// encode compresses bytes of the body, if that is to be, and sends them.
func (w *writer) encode(p []byte) (int, error) {
	if w.gzip != nil {
		return w.gzip.Write(p)
	}
	return w.sendBody(p)
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

// changes reports whether the body is not sent as the content writes it, or may not be.
func (w *writer) changesBody() bool { return w.held != nil || w.replacer != nil || w.gzip != nil }

// send gives bytes of the body to the server, as fast as that is allowed.
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

// ReadFrom implements io.ReaderFrom. What the server reads from a file itself, it still does if nothing needs to see the bytes.
func (w *writer) ReadFrom(src io.Reader) (n int64, err error) {
	if w.status == 0 && w.withheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.withheldStatus != 0 || w.changesBody() {
		return io.Copy(writeOnly{w}, src)
	}
	whole, from := int64(1<<63-1), src
	limited, _ := src.(*io.LimitedReader)
	if limited != nil { // the kernel copies from one of these over a file, not from two
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

// writeOnly hides what else a writer can do, so that io.Copy writes.
type writeOnly struct{ io.Writer }

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError sends what has been written so far, compressed or not.
func (w *writer) FlushError() error {
	if w.status == 0 && w.withheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.withheldStatus != 0 {
		return nil
	}
	if w.held != nil {
		if err := w.held.release(w, w.held.body, false); err != nil {
			return err
		}
	}
	if w.gzip != nil {
		if err := w.gzip.flush(); err != nil {
			return err
		}
	}
	w.deadline.extend(w)
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.deadline.clear(w)
	return err
}

// Hijack implements http.Hijacker, where the server does. What a handler sends from then on is not counted.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.hijacked = true
		if w.status == 0 {
			w.status = http.StatusSwitchingProtocols // what else would it be for
		}
	}
	return conn, rw, err
}

// finish ends the answer.
func (w *writer) finish() {
	if w.hijacked || w.x.loggedStatus != 0 {
		return
	}
	if w.status == 0 && w.withheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.held != nil {
		_ = w.held.release(w, w.held.body, true) // an error is the client's departure
	}
	if w.replacer != nil {
		_ = w.replacer.close()
	}
	if w.gzip != nil {
		_ = w.gzip.close()
	}
	w.deadline.extend(w)
}

// abandon gives back what the writer holds, if the content has panicked.
func (w *writer) release() {
	if w.gzip != nil {
		w.gzip.release()
	}
}

// bodyBytes is how many bytes of a body the client was sent.
func (w *writer) bodyBytes() int64 {
	if w.x.r.Method == http.MethodHead {
		return 0
	}
	return w.sent
}
