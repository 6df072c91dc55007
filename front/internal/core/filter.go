package core

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/connection"
)

// filters compiles how a location changes responses. Those of modules are compiled.
func (c *Compiler) filters(r *Rules) {
	s := r.Settings
	r.fields, r.expires, r.trailers = c.addHeaders(s.Header), c.expires(s.Expires), c.addTrailers(s.Trailers)
	r.rate, r.rateAfter = c.Text("limit_rate", s.Rate), c.Text("limit_rate_after", s.RateAfter)
	if s.NoChunks {
		r.byType = append(r.byType, noChunks{})
	}
	r.NeedsHeader = r.expires != nil || r.byHead != nil || r.byType != nil || r.trailers != nil ||
		slices.ContainsFunc(r.fields, func(a addHeader) bool { return a.replace })
	r.isObserved = r.logs != nil || c.Counting() || s.Rate != "" || c.setsLimitRate || r.AddsFields() || r.NeedsHeader
}

// AddsFields reports whether fields are added to headers.
func (r *Rules) AddsFields() bool { return r.fields != nil || r.byHead != nil }

// Writer is the content's http.ResponseWriter. Unwrap gives access to the server's other methods.
type Writer struct {
	http.ResponseWriter
	X              *Exchange
	Status         int          // of the response; 0 until it has one
	Raw            message.Head // of the response, if that is sent as it is
	Sent           int64        // bytes of the body that were written to the server
	WithheldStatus int          // the status of a response that an error page replaces, else 0
	IsBypassed     bool         // a bound handler writes to the ResponseWriter itself
	hijacked       bool
	unwatch        func() bool // cancels what EndWithPlan has set
	SwitchBytes    int64       // length of a tunnel's 101 head

	Stages   [stageCount]stage // that the body passes; nil where it is not changed
	trailers bool              // trailer fields follow the body
	pace     *rateLimiter      // nil does not limit the rate
	deadline sendDeadline
}

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(code int) {
	switch {
	case code < 200 && code != http.StatusSwitchingProtocols:
		w.ResponseWriter.WriteHeader(code)
	case w.WithheldStatus != 0:
	case w.Status != 0:
		if w.Stages[holdStage] == nil {
			w.ResponseWriter.WriteHeader(code) // it logs the superfluous call
		}
	case w.X.BodyStatus.Load() != 0 && w.X.ErrorStatus == 0:
		w.withhold(int(w.X.BodyStatus.Load()))
	case w.X.Intercepts(code):
		w.withhold(code)
	default:
		w.sendHead(code)
	}
}

// withhold drops the response: its header is cleared, and its body discarded.
func (w *Writer) withhold(status int) {
	w.WithheldStatus = status
	header := w.Header()
	for name := range header {
		if name != "Www-Authenticate" || status != http.StatusUnauthorized {
			delete(header, name)
		}
	}
}

// sendHead runs the filter phase and sends the head, or holds it back until the body's beginning is
// known. An error page has the error's status.
func (w *Writer) sendHead(code int) {
	code = w.X.PageStatus(code)
	w.Status = code
	if !w.X.IsConditional() {
		w.X.cleanPageHeader(w.Header(), code)
	}
	if r := w.X.Loc.Rules; w.X.Parent == nil {
		r.ChangeHeader(w.X, w.Header(), code)
		if w.trailers = r.addsTrailers(w, code); w.trailers {
			r.announceTrailers(w.Header())
		}
		w.StartLimits()
		if r.byType != nil && !startByType(w, r.byType) {
			return
		}
	} else if w.X.AddedTo != nil && !startByType(w, r.ofAdded) { // as in nginx only text is changed
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// ChangeHeader applies the filters to the header of a response.
func (r *Rules) ChangeHeader(x *Exchange, header http.Header, code int) {
	if r.expires == nil && !r.AddsFields() {
		return
	}
	isDefaultStatus := getsAddedFields(code)
	// a 416 has the fields of the 200 without such a range, such as those of CORS, but not its lifetime
	isOutOfRange := code == http.StatusRequestedRangeNotSatisfiable && x.ErrorStatus == code &&
		header["Content-Range"] != nil
	if r.expires != nil && isDefaultStatus {
		r.expires.set(x, header)
	}
	for i := range r.fields {
		field := &r.fields[i]
		if isDefaultStatus || field.always || isOutOfRange && !field.replace && field.name != "Cache-Control" {
			field.add(x, header)
		}
	}
	for _, change := range r.byHead {
		change(&x.Response)
	}
}

// begin sends the head, unless there is one. It reports whether an error page replaces the response.
func (w *Writer) begin() (isWithheld bool) {
	if w.Status == 0 && w.WithheldStatus == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.WithheldStatus != 0
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(p []byte) (int, error) {
	if w.begin() {
		return len(p), nil
	}
	return w.Pass(0, p)
}

// WriteString implements io.StringWriter.
func (w *Writer) WriteString(s string) (int, error) {
	if w.begin() || w.changesBody() || w.pace != nil || len(s) > maxPerDeadline {
		return w.Write([]byte(s))
	}
	w.deadline.startWrite(w, int64(len(s)))
	n, err := io.WriteString(w.ResponseWriter, s)
	w.deadline.clear(w)
	w.Sent += int64(n)
	return n, err
}

// allow waits until the rate limit allows to send something, and returns how many of n bytes may be
// sent under one deadline.
func (w *Writer) allow(n int64) (int64, error) {
	if w.pace != nil {
		most, err := w.pace.wait(w)
		if err != nil {
			return 0, err
		}
		n = min(n, most)
	}
	return w.deadline.startWrite(w, n), nil
}

// SendBody writes a part of the body to the server, within the rate limit.
func (w *Writer) SendBody(p []byte) (n int, err error) {
	for {
		most, err := w.allow(int64(len(p) - n))
		if err != nil {
			return n, err
		}
		m, err := w.ResponseWriter.Write(p[n:][:most])
		n += m
		w.Sent += int64(m)
		if err != nil || n == len(p) {
			w.deadline.clear(w)
			return n, err
		}
	}
}

// TrySender implements connection.TrySender, if the server does. It returns nil if a filter changes
// the body or its rate, or, for a response that is detached, if trailers follow.
func (w *Writer) TrySender(begin func(end func(why any))) func(p []byte) connection.Delivery {
	to, ok := w.ResponseWriter.(connection.TrySender)
	if !ok || w.Status == 0 || w.WithheldStatus != 0 || w.changesBody() || w.pace != nil || w.trailers && begin != nil {
		return nil
	}
	trySend := to.TrySender(begin)
	if trySend == nil {
		return nil
	}
	return func(p []byte) connection.Delivery {
		how := trySend(p)
		if how != connection.Refused {
			w.Sent += int64(len(p))
		}
		return how
	}
}

// ReadFrom implements io.ReaderFrom. If nothing needs the bytes the server's own ReadFrom applies,
// which may use sendfile.
func (w *Writer) ReadFrom(src io.Reader) (n int64, err error) {
	if w.begin() || w.changesBody() {
		return io.Copy(writeOnly{w}, src)
	}
	whole, from := int64(1<<63-1), src
	limited, _ := src.(*io.LimitedReader)
	if limited != nil { // the kernel copies from a file in one LimitedReader, but not in two
		whole, from = limited.N, limited.R
	}
	for n < whole {
		most, err := w.allow(whole - n)
		if err != nil {
			return n, err
		}
		m, err := io.Copy(w.ResponseWriter, &io.LimitedReader{R: from, N: most})
		n += m
		w.Sent += m
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
func (w *Writer) Flush() { _ = w.FlushError() }

// FlushError flushes what has been written, including the compressor's output.
func (w *Writer) FlushError() error {
	if w.begin() {
		return nil
	}
	for i := range w.Stages { // holdStage starts those that follow it
		if s := w.Stages[i]; s != nil {
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
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.hijacked = true
		if w.X.Plan.Needs&NeedsCounts != 0 {
			w.X.Plan.State.Counts.Hijacked.Add(1)
		}
		w.EndWithPlan(func() { conn.Close() })
		if w.Status == 0 {
			w.Status = http.StatusSwitchingProtocols // hijacking has no other use here
		}
	}
	return conn, rw, err
}

// EndWithPlan makes the plan call end when it has expired, in place of what an earlier call has set.
func (w *Writer) EndWithPlan(end func()) {
	if w.unwatch != nil {
		w.unwatch()
	}
	w.unwatch = context.AfterFunc(w.X.Plan.Expired, end)
}

// finish ends the response.
func (w *Writer) finish() {
	if w.IsBypassed || w.hijacked || w.X.LoggedStatus != 0 {
		return
	}
	w.begin()
	for i := range w.Stages {
		if s := w.Stages[i]; s != nil {
			_ = s.Close() // an error means that the client has gone
		}
	}
	if w.trailers {
		w.X.Loc.addTrailers(w)
	}
	w.deadline.extend(w)
}

// Release releases the stages, also after a panic.
func (w *Writer) Release() {
	if w.Status == 0 && w.X.ErrorStatus == 0 && !w.X.isComplete {
		w.Status = http.StatusInternalServerError // to log
	}
	if w.unwatch != nil {
		w.unwatch()
	}
	for i := range w.Stages {
		if s := w.Stages[i]; s != nil {
			s.Release()
		}
	}
}
