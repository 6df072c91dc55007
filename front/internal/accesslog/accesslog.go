// Package accesslog writes a line for each request to a handler, on any http.Server. Package front
// writes its logs with the same files and buffers.
//
// Each line is one Write. The writer should not block requests: a File does not.
package accesslog

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// Format is the format of a line.
type Format string

const (
	// Common is the Common Log Format: client, user, time, request line, status, bytes of the body.
	Common Format = "common"
	// Combined is Common with Referer and User-Agent.
	Combined Format = "combined"
	// JSON is one object per line. Times are in RFC 3339 format, duration_us is in microseconds.
	JSON Format = "json"
)

// ParseFormat returns the format with a name.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case Common, Combined, JSON:
		return f, nil
	}
	return "", fmt.Errorf("unknown format %q (must be %s, %s or %s)", name, Common, Combined, JSON)
}

// handler logs the responses of another handler.
type handler struct {
	next    http.Handler
	format  Format
	out     io.Writer
	buffers Buffers
}

// Handler returns a handler that calls next, and then writes a line to out. The line contains the
// number of bytes that next has written; the client may have received fewer. It is written even if
// next panics.
func Handler(next http.Handler, format Format, out io.Writer) http.Handler {
	return &handler{next: next, format: format, out: out}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	began, returned := time.Now(), false
	defer func() {
		if rec.status == 0 && returned {
			rec.status = http.StatusOK
		} else if rec.status == 0 {
			rec.status = http.StatusInternalServerError // next panics
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
	buffer := h.buffers.Get()
	line := (*buffer)[:0]
	if h.format == JSON {
		line = e.appendJSON(line, time.Since(began))
	} else {
		line = e.appendText(line, h.buffers.Local(began), h.format == Combined)
	}
	_, _ = h.out.Write(line) // the client cannot fix the log
	h.buffers.Put(buffer, line)
}

// recorder records the status and size of a response.
type recorder struct {
	http.ResponseWriter
	status int // 0 until the head is written
	bytes  int64
}

// Unwrap implements the interface of http.ResponseController.
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

// wrote records the number of bytes written. Without a WriteHeader, the status is 200.
func (w *recorder) wrote(n int64) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.bytes += n
}
