// Package accesslog writes a line for each request that a handler has answered, on any http.Server.
//
// A line is one Write. What it is written to should not make requests wait: package spool has such a writer.
package accesslog

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Format says what a line looks like.
type Format string

const (
	// Common is the Common Log Format: client, user, time, request line, status, bytes of the body.
	Common Format = "common"
	// Combined is Common with Referer and User-Agent.
	Combined Format = "combined"
	// JSON is an object a line. Times are RFC 3339, duration_us microseconds.
	JSON Format = "json"
)

// ParseFormat finds a format by its name.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case Common, Combined, JSON:
		return f, nil
	}
	return "", fmt.Errorf("unknown format %q: want %s, %s or %s", name, Common, Combined, JSON)
}

// keptLine is the size up to which the buffer of a line is used again.
const keptLine = 4 << 10

// handler logs what another one answers.
type handler struct {
	next   http.Handler
	format Format
	out    io.Writer
	lines  sync.Pool // of *[]byte
	second atomic.Pointer[second]
}

// second is one as Common has it: to write it anew for each request would be a third of what a line costs.
type second struct {
	unix int64
	text string
}

// clf is a time as Common has it.
func (h *handler) clf(at time.Time) string {
	s := h.second.Load()
	if s == nil || s.unix != at.Unix() {
		s = &second{at.Unix(), at.Format(clfTime)}
		h.second.Store(s)
	}
	return s.text
}

// Handler returns a handler that has next answer, and then writes a line to out. The line counts the bytes
// that next wrote; the client may have got fewer. It is written, too, if next panics.
func Handler(next http.Handler, format Format, out io.Writer) http.Handler {
	return &handler{next: next, format: format, out: out, lines: sync.Pool{New: func() any { return new([]byte) }}}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	began, returned := time.Now(), false
	defer func() {
		if rec.status == 0 && returned {
			rec.status = http.StatusOK
		} else if rec.status == 0 {
			rec.status = http.StatusInternalServerError // it panics
		}
		h.write(r, rec, began)
	}()
	h.next.ServeHTTP(rec, r)
	returned = true
}

func (h *handler) write(r *http.Request, rec *recorder, began time.Time) {
	if r.Method == http.MethodHead {
		rec.bytes = 0
	}
	e := entry{r: r, status: rec.status, bytes: rec.bytes, at: began}
	buffer := h.lines.Get().(*[]byte)
	line := (*buffer)[:0]
	if h.format == JSON {
		line = e.appendJSON(line, time.Since(began))
	} else {
		line = e.appendText(line, h.clf(began), h.format == Combined)
	}
	_, _ = h.out.Write(line) // whoever is logged cannot help it
	if cap(line) <= keptLine {
		*buffer = line
		h.lines.Put(buffer)
	}
}

// recorder notes what a handler answers.
type recorder struct {
	http.ResponseWriter
	status int // 0 until it is known
	bytes  int64
}

// Unwrap lets http.ResponseController find the rest.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(code int) {
	if w.status == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
		w.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *recorder) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.wrote(int64(n))
	return n, err
}

// WriteString implements io.StringWriter.
func (w *recorder) WriteString(s string) (int, error) {
	n, err := io.WriteString(w.ResponseWriter, s)
	w.wrote(int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom, so that files are sent as fast as without a log.
func (w *recorder) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(w.ResponseWriter, src)
	w.wrote(n)
	return n, err
}

// Flush implements http.Flusher.
func (w *recorder) Flush() {
	w.wrote(0)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// wrote notes that the head was sent, if none was given with 200, and how much of the body.
func (w *recorder) wrote(n int64) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.bytes += n
}
