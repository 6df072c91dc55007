package http3

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tarehq/tare/internal/wire/http2"
)

// response is the ResponseWriter of a request. It leaves out fields about connections, which are
// malformed in HTTP/3 (RFC 9114, 4.2).
type response struct {
	http.ResponseWriter
	connection *connection
}

// strip is called before the head is sent. Connection: close ends the connection after its
// requests.
func (w *response) strip() {
	h := w.Header()
	if values := h["Connection"]; len(values) > 0 && values[0] == "close" {
		w.connection.retire()
	}
	for name := range h {
		if http2.ConcernsConnection(name) {
			delete(h, name)
		}
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	w.strip()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	w.strip()
	return w.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (w *response) FlushError() error {
	w.strip()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// finish is called when the handler has returned. quic-go would add a Content-Length, which is not
// that of a GET if the request is a HEAD.
func (w *response) finish(r *http.Request) {
	w.strip()
	if _, has := w.Header()["Content-Length"]; r.Method == http.MethodHead && !has {
		w.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// startBody finds out whether a request without Content-Length has a body. Most clients end the
// stream with the head of a GET, but the server of quic-go leaves the length unknown. An upstream
// would receive an empty body in chunks. It reports false if the client does not end the stream and
// sends nothing.
//
// Methods that are meant to have a body are left alone: a client may wait for the response's head
// before it sends one.
func startBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodConnect:
		return true
	}
	if r.ContentLength == 0 {
		r.Body = http.NoBody
	}
	if r.ContentLength >= 0 {
		return true
	}
	control := http.NewResponseController(w)
	if timeout > 0 {
		_ = control.SetReadDeadline(time.Now().Add(timeout))
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	var first [1]byte
	n, err := io.ReadFull(r.Body, first[:]) // a trailer section is a Read of no byte
	switch {
	case n > 0:
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(first[:n]), r.Body), r.Body}
		return true
	case errors.Is(err, io.EOF):
		r.ContentLength, r.Body = 0, http.NoBody
		return true
	}
	return false
}
