package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/wire/http1"
)

// For a cache a bound handler is an upstream: it runs in a goroutine of its own, because its
// response may be stored after its client has gone. The head of the response is ready at the first
// Flush, or at the end of the handler or of its buffer. The response ends when its length has been
// written, with its head if it has no body, or with its handler.

// boundUpstream sends a request to a bound handler. It does not refer to the exchange.
type boundUpstream struct {
	handler  http.Handler
	received http.Request // the client's: the handler sees its connection
	errorLog *errorlog.Log
	plan     *core.Plan // is not released before the handler has returned
}

// errBoundPanic stands for a response that never began, as if the upstream had closed its connection.
var errBoundPanic = errors.New("the bound handler has panicked")

// Do implements sender. It calls the handler, and returns once the head of its response is ready.
func (f *boundUpstream) Do(ctx context.Context, q *fetch.Request) (*http.Response, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := f.received.WithContext(own)
	if err := receiveBound(r, q); err != nil {
		cancel()
		return nil, err
	}
	w := &boundResponse{header: make(http.Header), method: r.Method, ready: make(chan struct{})}
	w.buffer = bufio.NewWriterSize(boundOutput{w}, core.MaxHeldBytes)
	b := &w.body
	b.PipeReader, b.writer = io.Pipe()
	b.cancel, b.done, b.response = cancel, make(chan struct{}), w
	b.keepHandler = context.AfterFunc(ctx, cancel)
	f.plan.Users.Add(1)
	stop := context.AfterFunc(f.plan.Expired, cancel) // also of a handler that is kept
	go func() {
		defer f.plan.Leave()
		defer stop()
		defer close(b.done)
		defer cancel()
		isComplete := false
		defer func() {
			if !isComplete {
				f.abort(w, recover())
			}
		}()
		f.handler.ServeHTTP(w, r)
		w.end()
		isComplete = true
	}()
	if <-w.ready; w.result.Body == nil {
		return nil, errBoundPanic
	}
	resp := w.result
	return &resp, nil
}

// receiveBound makes r the request that the handler receives.
func receiveBound(r *http.Request, q *fetch.Request) (err error) {
	r.Method, r.Host, r.RequestURI, r.Header, r.ContentLength = q.Method, q.Host, q.Target, maps.Clone(q.Header), 0
	if q.Body != nil {
		if r.ContentLength = q.Body.Length(); r.ContentLength >= 0 { // handlers expect the field
			r.Header["Content-Length"] = []string{strconv.FormatInt(r.ContentLength, 10)}
		}
	}
	if r.Body, err = q.Body.Open(); err != nil {
		return err
	}
	r.URL, err = url.ParseRequestURI(q.Target)
	return err
}

// abort ends the response after a panic. As in net/http, http.ErrAbortHandler is not logged.
func (f *boundUpstream) abort(w *boundResponse, why any) {
	if why != nil && why != http.ErrAbortHandler { //nolint:errorlint // servers compare it, too
		f.errorLog.Logf(errorlog.LevelError, "panic in a bound handler: %v\n%s", why, debug.Stack())
	}
	if w.isSent {
		w.body.end(io.ErrUnexpectedEOF)
		return
	}
	close(w.ready)
}

// boundResponse is the handler's http.ResponseWriter.
type boundResponse struct {
	header  http.Header
	method  string
	status  int
	buffer  *bufio.Writer
	length  int64 // that the handler has declared; -1 without one
	written int64 // bytes of the body
	isSent  bool  // the head is ready
	isEnded bool  // the handler has returned
	ready   chan struct{}
	result  http.Response
	trailer http.Header // once the handler has returned
	body    boundBody
}

// Header implements http.ResponseWriter.
func (w *boundResponse) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Interim responses are dropped.
func (w *boundResponse) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http
	}
	if w.status != 0 || status < http.StatusOK {
		return
	}
	w.status, w.length = status, -1
	w.result.Header = receivedHeader(w.header)
	if length, ok := message.DeclaredLength(w.result.Header); ok {
		w.length = length
	}
	if w.body.left.Store(w.length); w.hasNoBody() {
		w.body.left.Store(0)
	}
}

// receivedHeader returns a header as a client receives it: a handler may have set fields by names in
// other spellings, which the cache's rules must find, and values that servers clean.
func receivedHeader(header http.Header) http.Header {
	received := make(http.Header, len(header))
	clean := strings.NewReplacer("\r", " ", "\n", " ")
	for name, values := range header {
		if !httpguts.ValidHeaderFieldName(name) {
			continue
		}
		name = http.CanonicalHeaderKey(name)
		for _, value := range values {
			received[name] = append(received[name], strings.Trim(clean.Replace(value), " \t"))
		}
	}
	return received
}

// Write implements http.ResponseWriter.
func (w *boundResponse) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !message.BodyAllowed(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	return w.buffer.Write(p)
}

// Flush implements http.Flusher.
func (w *boundResponse) Flush() { _ = w.FlushError() }

// FlushError sends what has been written.
func (w *boundResponse) FlushError() error {
	w.WriteHeader(http.StatusOK)
	err := w.buffer.Flush()
	w.sendHead(nil)
	return err
}

// end ends the response of a handler that has returned.
func (w *boundResponse) end() {
	w.isEnded = true
	err := w.FlushError()
	w.trailer = w.setTrailer()
	switch {
	case err != nil:
	case w.written < w.length && !w.hasNoBody():
		err = io.ErrUnexpectedEOF
	default:
		err = io.EOF
	}
	w.body.end(err)
}

// boundOutput is where the buffer goes.
type boundOutput struct{ w *boundResponse }

func (o boundOutput) Write(p []byte) (int, error) {
	o.w.sendHead(p)
	return o.w.body.write(p)
}

// sendHead makes the head ready. As in net/http the type of the body comes from its beginning, and
// its length from a buffer that holds all of it.
func (w *boundResponse) sendHead(beginning []byte) {
	if w.isSent {
		return
	}
	w.isSent = true
	header, resp := w.result.Header, &w.result
	if _, typed := header["Content-Type"]; !typed && len(beginning) > 0 && header.Get("Content-Encoding") == "" {
		header["Content-Type"] = []string{http.DetectContentType(beginning)}
	}
	if w.isEnded && w.length < 0 && (w.method != http.MethodHead || w.written > 0) && message.BodyAllowed(w.status) {
		w.length = w.written
		header["Content-Length"] = []string{strconv.FormatInt(w.length, 10)}
	}
	resp.StatusCode, resp.ContentLength, resp.Body = w.status, w.length, &w.body
	resp.Trailer = make(http.Header)
	for name := range http1.Elements(strings.Join(header["Trailer"], ",")) {
		resp.Trailer[http.CanonicalHeaderKey(name)] = nil
	}
	close(w.ready)
}

// hasNoBody reports whether the body is discarded.
func (w *boundResponse) hasNoBody() bool {
	return w.method == http.MethodHead || !message.BodyAllowed(w.status)
}

// boundBody is the body of the response. The handler's Write waits until all of it was read.
type boundBody struct {
	*io.PipeReader
	writer   *io.PipeWriter
	unread   atomic.Int64 // bytes that the handler writes
	left     atomic.Int64 // bytes that have not been read; negative if their number is unknown
	hasEnded atomic.Bool
	response *boundResponse
	cancel   context.CancelFunc
	// keepHandler keeps the end of the upstream request from canceling that of the handler.
	keepHandler func() bool
	done        chan struct{} // closed once the handler has ended
}

func (b *boundBody) write(p []byte) (int, error) {
	if b.response.hasNoBody() {
		return len(p), nil
	}
	b.unread.Store(int64(len(p)))
	return b.writer.Write(p)
}

func (b *boundBody) end(err error) {
	b.hasEnded.Store(true)
	_ = b.writer.CloseWithError(err) // it never fails
}

// Read implements io.Reader. At the end it sets the trailer section, unless the length of the body
// is declared: as over HTTP/1, it has none then.
func (b *boundBody) Read(p []byte) (int, error) {
	if b.left.Load() == 0 {
		return 0, io.EOF
	}
	n, err := b.PipeReader.Read(p)
	b.unread.Add(-int64(n))
	if b.left.Add(-int64(n)); err != nil {
		maps.Copy(b.response.result.Trailer, b.response.trailer)
	}
	return n, err
}

// HasInput implements connection.InputReporter.
func (b *boundBody) HasInput() bool {
	return b.unread.Load() > 0 || b.left.Load() == 0 || b.hasEnded.Load()
}

// Close ends the handler's request, and waits until it has returned. A handler that has written the
// whole body may go on.
func (b *boundBody) Close() error {
	err := b.PipeReader.Close()
	if b.left.Load() == 0 {
		b.keepHandler()
		return err
	}
	b.cancel()
	<-b.done
	return err
}

// setTrailer returns the trailer section of a handler that has returned.
func (w *boundResponse) setTrailer() http.Header {
	trailer := make(http.Header)
	for name, values := range w.header {
		late, isLate := strings.CutPrefix(name, http.TrailerPrefix)
		late = http.CanonicalHeaderKey(late)
		if _, isAnnounced := w.result.Trailer[late]; isAnnounced || isLate {
			trailer[late] = slices.Clone(values)
		}
	}
	return trailer
}
