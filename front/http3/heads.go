package http3

import (
	"context"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlogwriter"

	connectioninfo "github.com/tarehq/tare/internal/connection"
)

// quic-go rejects malformed requests and large heads itself, and has no hook for them. It reports
// heads as events of qlog, from which this file finds the requests that no handler sees:
//
//	waiting    an event has the first head of a stream
//	served     the handler of the stream has been called
//	rejected   an event has the head of a response, or no handler was called in time
//
// quic-go calls a handler at once, but on a busy machine that may start late. A handler whose request
// counts as rejected aborts it, so that the log has one line for each request.

const (
	// rejectedAfter is how long after its head a request without a handler is rejected.
	rejectedAfter = 5 * time.Second
	// leastWaiting is how many heads of a connection may wait at least. At most this is twice the
	// number of its streams, each of which has one goroutine on the way to a handler. With more,
	// the first one is rejected.
	leastWaiting = 16
	// maxKeptBytes limits what is kept of a head, and what is logged of it.
	maxKeptBytes = 4 << 10
)

// trace is the qlogwriter.Trace of a connection. QUIC itself produces no events: quic-go requests
// its producer before the connection has heads.
type trace struct{ heads atomic.Pointer[heads] }

func newTrace(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return new(trace) }

// AddProducer implements qlogwriter.Trace.
func (t *trace) AddProducer() qlogwriter.Recorder {
	if h := t.heads.Load(); h != nil {
		return h
	}
	return nil
}

// heads are the heads of a connection's requests. It is the qlogwriter.Recorder of its events.
type heads struct {
	connection *connection

	mu      sync.Mutex
	waiting []head                     // the first one is the oldest
	served  map[quic.StreamID]struct{} // whose handlers run
	check   *time.Timer                // fires while heads wait
}

type head struct {
	stream  quic.StreamID
	arrived time.Time
	fields  []qlog.HeaderField
}

func (h *heads) init(c *connection) {
	h.connection, h.served = c, make(map[quic.StreamID]struct{})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.check = time.AfterFunc(rejectedAfter, h.rejectOld)
	h.check.Stop()
}

// RecordEvent implements qlogwriter.Recorder.
func (h *heads) RecordEvent(e qlogwriter.Event) {
	switch e := e.(type) {
	case qlog.FrameParsed:
		if frame, ok := e.Frame.Frame.(qlog.HeadersFrame); ok {
			h.arrive(e.StreamID, frame.HeaderFields)
		}
	case qlog.FrameCreated:
		if frame, ok := e.Frame.Frame.(qlog.HeadersFrame); ok {
			h.respond(e.StreamID, frame.HeaderFields)
		}
	}
}

// Close implements qlogwriter.Recorder.
func (*heads) Close() error { return nil }

// arrive adds a head, unless it is the trailer section of a request that is served.
func (h *heads) arrive(stream quic.StreamID, fields []qlog.HeaderField) {
	h.mu.Lock()
	if _, isServed := h.served[stream]; isServed {
		h.mu.Unlock()
		return
	}
	rejected := h.wait(head{stream, time.Now(), firstFields(fields)})
	h.mu.Unlock()
	h.connection.logRejected(rejected, http.StatusBadRequest)
}

// firstFields returns the fields that the log may need.
func firstFields(fields []qlog.HeaderField) []qlog.HeaderField {
	rest := maxKeptBytes
	for i, f := range fields {
		if rest -= len(f.Name) + len(f.Value); rest < 0 {
			return slices.Clone(fields[:i])
		}
	}
	return fields
}

// wait makes a head wait for its handler. If too many do, it returns the first one. The caller
// holds mu.
func (h *heads) wait(arrived head) (first []head) {
	if len(h.waiting) >= max(leastWaiting, 2*h.connection.config.Listener.HTTP3Streams) {
		first, h.waiting = slices.Clone(h.waiting[:1]), slices.Delete(h.waiting, 0, 1)
	}
	if len(h.waiting) == 0 {
		h.check.Reset(rejectedAfter)
	}
	h.waiting = append(h.waiting, arrived)
	return first
}

// serve is called by a request's handler, and panics if the request was rejected. Its result is called
// at the end.
func (h *heads) serve(r *http.Request) (end func()) {
	body, ok := r.Body.(interface{ StreamID() quic.StreamID })
	if !ok {
		return func() {}
	}
	stream := body.StreamID()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.remove(stream)) == 0 {
		panic(http.ErrAbortHandler)
	}
	h.served[stream] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.served, stream)
	}
}

// remove removes a head that waits, and returns it. The caller holds mu.
func (h *heads) remove(stream quic.StreamID) []head {
	at := slices.IndexFunc(h.waiting, func(w head) bool { return w.stream == stream })
	if at < 0 {
		return nil
	}
	found := slices.Clone(h.waiting[at : at+1])
	h.waiting = slices.Delete(h.waiting, at, at+1)
	return found
}

// respond is called with the head of a response. That of a request without a handler is quic-go's.
func (h *heads) respond(stream quic.StreamID, fields []qlog.HeaderField) {
	h.mu.Lock()
	found := h.remove(stream)
	h.mu.Unlock()
	if len(found) == 0 {
		return
	}
	for _, f := range fields {
		if status, err := strconv.Atoi(f.Value); f.Name == ":status" && err == nil {
			h.connection.logRejected(found, status)
		}
	}
}

// rejectOld rejects the heads that have waited for too long.
func (h *heads) rejectOld() {
	h.mu.Lock()
	n := 0
	for n < len(h.waiting) && time.Since(h.waiting[n].arrived) >= rejectedAfter {
		n++
	}
	old := slices.Clone(h.waiting[:n])
	h.waiting = slices.Delete(h.waiting, 0, n)
	if len(h.waiting) > 0 {
		h.check.Reset(rejectedAfter - time.Since(h.waiting[0].arrived))
	}
	h.mu.Unlock()
	h.connection.logRejected(old, http.StatusBadRequest)
}

// end rejects the heads that wait at the end of the connection, when all handlers have returned.
func (h *heads) end() {
	h.mu.Lock()
	rest := h.waiting
	h.waiting = nil
	h.check.Stop()
	h.mu.Unlock()
	h.connection.logRejected(rest, http.StatusBadRequest)
}

// logRejected logs requests that no handler sees.
func (c *connection) logRejected(all []head, status int) {
	if c.config.Rejected == nil {
		return
	}
	for _, h := range all {
		r, line := h.request()
		r.RemoteAddr = c.quic.RemoteAddr().String()
		state := c.quic.ConnectionState().TLS
		r.TLS = &state
		ctx := context.WithValue(context.Background(), http.LocalAddrContextKey, c.quic.LocalAddr())
		c.callRejected(r.WithContext(connectioninfo.With(ctx, c)), line, status)
	}
}

// callRejected calls the hook. A panic must not end the process.
func (c *connection) callRejected(r *http.Request, line string, status int) {
	defer func() {
		if v := recover(); v != nil {
			c.config.ErrorLog.Printf("http: panic reporting a rejected request of %s: %v\n%s", r.RemoteAddr, v,
				debug.Stack())
		}
	}()
	c.config.Rejected(r, line, status, 0)
}

// request returns what is known of a request, and its request line as HTTP/1 has it. The line is
// empty if the head is not complete.
func (h head) request() (r *http.Request, line string) {
	r = &http.Request{
		Proto: "HTTP/3.0", ProtoMajor: 3, Header: make(http.Header), URL: new(url.URL), Body: http.NoBody,
	}
	for _, f := range firstFields(h.fields) {
		switch f.Name {
		case ":method":
			r.Method = f.Value
		case ":path":
			r.RequestURI = f.Value
		case ":authority":
			r.Host = f.Value
		default:
			if !strings.HasPrefix(f.Name, ":") {
				r.Header.Add(f.Name, f.Value)
			}
		}
	}
	if r.Host == "" {
		r.Host = r.Header.Get("Host")
	}
	if r.Method == "" || r.RequestURI == "" {
		return r, ""
	}
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		r.URL = u
	}
	return r, r.Method + " " + r.RequestURI + " " + r.Proto
}
