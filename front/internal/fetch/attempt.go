package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/connection"
)

// An attempt is one try of an upstream request on one server. Its states:
//
//	pending   in Pending, without timers
//	started   has a timer for the server and a registration with the client's context
//	canceled  err is set, and all that wait for the context are woken
//	stopped   final: off the pending list, timers stopped
//
// Its transitions:
//
//	-> pending            startAttempt
//	pending -> started    Pending.check after timersAfter, or Done is called earlier
//	started -> canceled   checkTimeout: the server was silent for too long; or the client has gone
//	any -> stopped        end: there is no response, another server is tried, or the response's
//	                      body was read or closed
//
// A timeout runs only while the attempt waits for the server:
//
//	startAttempt             it waits, with the timeout for reading
//	wrapBody                 it waits, with the timeout for sending until the body's EOF
//	upstreamBody.Read        it does not wait while the client's body is read
//	Dial                     it does not wait: dialing has a timeout of its own
//	headReceived             it does not wait
//	startWait ... endWait    it waits, in each read of the response's body
//	restartWait              it waits anew if it waits to read: the server sent something else

// attempt is also the context of its request, and its client.Hooks: see attemptContext.
type attempt struct {
	attemptContext
	parent      context.Context
	request     *Request
	record      *Record // nil unless a variable shows attempts
	url         url.URL
	httpRequest http.Request
	call        client.Call
	startTime   time.Time

	timeout      atomic.Int64 // how long the server may be silent
	waitingSince atomic.Int64 // nanoseconds after startTime; -1 if the attempt does not wait
	isSending    atomic.Bool  // the timeout is that for sending

	stderr *stderrSearch // nil unless the application wrote to STDERR, and Upstream.CatchStderr is set

	wasUnobserved bool // it is stopped, and never had timers
	isPending     bool // it is in Pending, whose mu guards this and the next line
	prev, next    *attempt
}

func (r *Request) startAttempt(ctx context.Context, addr string) *attempt {
	a := &r.firstAttempt
	if a.request != nil {
		a = new(attempt)
	}
	a.request, a.parent = r, ctx
	a.record = r.Attempts.add(addr)
	a.timeout.Store(int64(r.upstream.ReadTimeout))
	r.upstream.Pending.add(a)
	return a
}

// upstreamBody is a request body that is being sent to a server. While it waits for the client, the
// server's timeout does not run.
type upstreamBody struct {
	io.ReadCloser
	attempt *attempt
}

// wrapBody returns body with the timeouts of sending. Bodies in memory need none.
func (a *attempt) wrapBody(body io.ReadCloser) io.ReadCloser {
	if _, ok := body.(*memoryBody); ok || body == http.NoBody {
		return body
	}
	a.isSending.Store(true)
	a.timeout.Store(int64(a.request.upstream.SendTimeout))
	return &upstreamBody{body, a}
}

// Read implements io.Reader.
func (b *upstreamBody) Read(p []byte) (int, error) {
	b.attempt.waitingSince.Store(-1)
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, ErrBodyConsumed): // another reader waits for the client now
		return n, err
	case err == io.EOF:
		b.attempt.isSending.Store(false)
		b.attempt.timeout.Store(int64(b.attempt.request.upstream.ReadTimeout))
	}
	b.attempt.startWait()
	return n, err
}

// HasInput implements connection.InputReporter.
func (b *upstreamBody) HasInput() bool {
	body, ok := b.ReadCloser.(connection.InputReporter)
	return ok && body.HasInput()
}

// startWait marks that the attempt waits for the server, and endWait that it received n bytes.
func (a *attempt) startWait() { a.waitingSince.Store(a.waitStart()) }

// restartWait restarts the timeout for reading, unless the attempt waits for the client.
func (a *attempt) restartWait() {
	if since := a.waitingSince.Load(); since >= 0 && !a.isSending.Load() {
		a.waitingSince.CompareAndSwap(since, a.waitStart())
	}
}

// waitStart returns the value of waitingSince for a wait that begins now.
func (a *attempt) waitStart() int64 {
	if !a.hasTimers.Load() {
		return 0
	}
	return int64(time.Since(a.startTime))
}

func (a *attempt) endWait(n int) {
	a.waitingSince.Store(-1)
	a.update(func(s *Record) { s.BodyBytes += int64(n) })
}

// update changes the attempt's record, if it has one.
func (a *attempt) update(change func(s *Record)) { a.request.Attempts.update(a.record, change) }

// headReceived records the status of the response.
func (a *attempt) headReceived(status int) {
	a.waitingSince.Store(-1)
	a.request.responded(status, a.startTime)
	a.update(func(s *Record) {
		if s.Status, s.HeaderTime = status, time.Since(a.startTime); s.ConnectTime < 0 {
			s.ConnectTime = 0 // on a reused connection
		}
	})
}

// fail ends the attempt, which has no response, and records the error.
func (a *attempt) fail(f *Error) {
	status := f.Status
	if f.Kind == Canceled || f.Kind == InvalidBody {
		status = 0 // the server did not fail
	} else {
		a.request.responded(0, a.startTime)
	}
	a.update(func(s *Record) {
		if s.Status = status; isLocal(f.Err) { // as in nginx it has neither a status nor an address
			s.Addr, s.Status = "", 0
		}
	})
	a.end(f.Kind < NoServer)
}

// end ends the attempt, unless it has ended. failed reports a failure of the server.
func (a *attempt) end(failed bool) {
	if a.stop() {
		a.recordEnd(failed)
	}
}

// recordEnd records the end of an attempt that was stopped.
func (a *attempt) recordEnd(failed bool) {
	a.update(func(s *Record) { s.ResponseTime = time.Since(a.startTime) })
	if a.request.Turn.Done(failed) {
		a.request.reportFailure(a.call.Addr, ErrDisabled)
	}
}

// maxStderr bounds the text of one report about an application's STDERR.
const maxStderr = 2 << 10

var _ client.Hooks = (*attempt)(nil)

// Dial implements client.Hooks: it opens a connection, and makes the TLS handshake, each within
// ConnectTimeout.
func (a *attempt) Dial(ctx context.Context) (net.Conn, error) {
	r, network := a.request, "tcp"
	d := net.Dialer{Timeout: r.upstream.ConnectTimeout}
	if a.call.Addr[0] == '/' {
		network = "unix"
	} else if r.Local.IsValid() {
		d.LocalAddr, d.Control = net.TCPAddrFromAddrPort(r.Local), bindLate(r.Local)
	}
	a.waitingSince.Store(-1)
	defer a.startWait()
	began := time.Now()
	nc, err := d.DialContext(ctx, network, a.call.Addr)
	if err == nil && r.Transport.tls != nil {
		nc, err = r.Transport.handshake(ctx, nc, r.upstream.ConnectTimeout)
	}
	if err == nil {
		a.update(func(s *Record) { s.ConnectTime = time.Since(began) })
	}
	return nc, err
}

// Interim implements client.Hooks.
func (a *attempt) Interim(status int, h http.Header) {
	a.restartWait()
	if o := a.request.Observer; o != nil {
		o.Interim(status, h)
	}
}

// Ended implements client.Hooks.
func (a *attempt) Ended(sent, received int64) {
	a.update(func(s *Record) {
		s.BytesSent += sent
		s.BytesReceived += received
	})
}

// Stderr implements client.Hooks: it reports what an application writes to STDERR.
func (a *attempt) Stderr(text []byte) {
	a.restartWait() // as in nginx a server that writes is not silent
	r := a.request
	if texts := r.upstream.CatchStderr; len(texts) > 0 {
		if a.stderr == nil {
			a.stderr = new(stderrSearch)
		}
		a.stderr.add(text, texts)
	}
	for len(text) > 0 {
		part := text[:min(len(text), maxStderr)]
		text = text[len(part):]
		r.reportFailure(a.call.Addr, fmt.Errorf("FastCGI sent in stderr: %q", part))
	}
}

// stderrSearch looks for the texts of Upstream.CatchStderr in what an application writes.
type stderrSearch struct {
	caught string // what was found; "" without
	end    []byte // of the earlier pieces: a text may begin there
}

// add looks for texts in a piece.
func (s *stderrSearch) add(piece []byte, texts []string) {
	all, longest := append(s.end, piece...), 1
	for _, text := range texts {
		longest = max(longest, len(text))
		if bytes.Contains(all, []byte(text)) {
			s.caught = text
		}
	}
	s.end = bytes.Clone(all[max(len(all)-longest+1, 0):])
}

// Attempts are the records of the attempts of a Request, for variables such as $upstream_addr.
type Attempts struct {
	IsKept  bool       // else there are no records
	mu      sync.Mutex // a cache may continue the request after the client's exchange has ended
	records []*Record
}

// Record is the record of one attempt. A negative duration is unknown.
type Record struct {
	Addr                                  string
	Status                                int // 0 if it is unknown
	ConnectTime, HeaderTime, ResponseTime time.Duration
	BodyBytes                             int64 // of the response
	// BytesSent and BytesReceived are those of the connection, with heads and framing, once the
	// attempt has ended. By HTTP/2 they are those of the stream's frames.
	BytesSent, BytesReceived int64
}

func (t *Attempts) add(addr string) *Record {
	if !t.IsKept {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &Record{Addr: addr, ConnectTime: -1, HeaderTime: -1, ResponseTime: -1}
	t.records = append(t.records, s)
	return s
}

// update changes a record. s may be nil.
func (t *Attempts) update(s *Record, change func(s *Record)) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	change(s)
}

// HasAny reports whether there is a record.
func (t *Attempts) HasAny() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.records) > 0
}

// List joins one value of all attempts, with commas as nginx does.
func (t *Attempts) List(value func(*Record) string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for _, s := range t.records {
		all = append(all, value(s))
	}
	return strings.Join(all, ", ")
}
