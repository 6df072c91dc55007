package front

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An attempt is one try of an upstream request on one server. Its states:
//
//	pending   in the proxy's pendingAttempts, without timers
//	started   has a timer for the server and a registration with the client's context
//	canceled  err is set, and all that wait for the context are woken
//	stopped   final: off the pending list, timers stopped
//
// Its transitions:
//
//	-> pending            startAttempt
//	pending -> started    pendingAttempts.check after timersAfter, or Done is called earlier
//	started -> canceled   checkTimeout: the server was silent for too long; or the client has gone
//	any -> stopped        fail: there is no response; finish: its body was read or closed;
//	                      end: another server is tried
//
// A timeout runs only while the attempt waits for the server:
//
//	startAttempt             it waits, with the timeout for reading
//	wrapBody                 it waits, with the timeout for sending until the body's EOF
//	upstreamBody.Read        it does not wait while the client's body is read
//	startDial ... endDial    it does not wait: dialing has a timeout of its own
//	headReceived             it does not wait
//	startWait ... endWait    it waits, in each read of the response's body

// attemptKey is the key of the attempt in the context of its request.
type attemptKey struct{}

// attempt is also the context of its request: see attemptContext.
type attempt struct {
	attemptContext
	parent      context.Context
	req         *upstreamRequest
	addr        string
	record      *attemptRecord // nil unless a variable shows attempts
	url         url.URL
	httpRequest http.Request
	startTime   time.Time

	timeout        atomic.Int64 // how long the server may be silent
	waitingSince   atomic.Int64 // nanoseconds after startTime; -1 if the attempt does not wait
	needsExactTime atomic.Bool  // timers run: waitingSince must be exact
	hasDialFailed  atomic.Bool  // no connection could be opened

	wasUnobserved bool // it is stopped, and neither had timers nor a waiter
	isPending     bool // it is in pendingAttempts, whose mu guards this and the next line
	prev, next    *attempt
}

// startAttempt starts an attempt on the server at addr.
func (s *upstreamRequest) startAttempt(ctx context.Context, addr string) *attempt {
	a := &s.firstAttempt
	if a.req != nil {
		a = new(attempt)
	}
	a.req, a.addr, a.parent = s, addr, ctx
	a.record = s.attempts.add(addr)
	a.timeout.Store(int64(s.proxy.readTimeout))
	s.proxy.pending.add(a)
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
	a.timeout.Store(int64(a.req.proxy.sendTimeout))
	return &upstreamBody{body, a}
}

// Read implements io.Reader.
func (b *upstreamBody) Read(p []byte) (int, error) {
	b.attempt.waitingSince.Store(-1)
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.attempt.timeout.Store(int64(b.attempt.req.proxy.readTimeout))
	} else if err != nil {
		err = &bodyError{err}
	}
	b.attempt.startWait()
	return n, err
}

// bodyError is an error of reading the client's body.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }

// startWait marks that the attempt waits for the server, and endWait that it received n bytes.
func (a *attempt) startWait() {
	now := time.Duration(0)
	if a.needsExactTime.Load() {
		now = time.Since(a.startTime)
	}
	a.waitingSince.Store(int64(now))
}

func (a *attempt) endWait(n int) {
	a.waitingSince.Store(-1)
	if n > 0 {
		a.req.attempts.addBytes(a.record, n)
	}
}

// startDial marks that a connection is being opened, which has a timeout of its own, and endDial
// that this has ended.
func (a *attempt) startDial() { a.waitingSince.Store(-1) }

func (a *attempt) endDial(elapsed time.Duration, err error) {
	if err == nil {
		a.req.attempts.setConnected(a.record, elapsed)
	} else {
		a.hasDialFailed.Store(true)
	}
	a.startWait()
}

// elapsed returns the time since the start, or 0 if no variable shows it.
func (a *attempt) elapsed() time.Duration {
	if a.record == nil {
		return 0
	}
	return time.Since(a.startTime)
}

// headReceived records the status of the response.
func (a *attempt) headReceived(status int) {
	a.waitingSince.Store(-1)
	if n := a.req.group.counts; n != nil {
		n.add(status, time.Since(a.startTime))
	}
	a.req.attempts.setHead(a.record, status, a.elapsed())
}

// fail stops the attempt, which has no response, and records the error.
func (a *attempt) fail(f *fetchError) {
	status := f.status
	if f.kind == failureClientGone {
		status = 0 // the server did not fail
	} else if n := a.req.group.counts; n != nil {
		n.classes[0].Add(1)
	}
	a.req.attempts.setHead(a.record, status, -1)
	a.end()
}

// finish stops the attempt at the end of its response's body.
func (a *attempt) finish(failed bool) {
	if a.end() {
		a.req.turn.Done(failed)
	}
}

// end stops the attempt, and reports false if it was stopped before.
func (a *attempt) end() bool {
	if !a.stop() {
		return false
	}
	a.req.attempts.setEnd(a.record, a.elapsed())
	return true
}

// attempts records the attempts of one upstream request for variables such as $upstream_addr. It
// has no records if no such variable is used.
type attempts struct {
	isKept  bool
	mu      sync.Mutex // a cache may continue the request after the client's exchange has ended
	records []*attemptRecord
	first   attemptRecord
	space   [1]*attemptRecord
}

// attemptRecord is the record of one attempt. A negative duration is unknown.
type attemptRecord struct {
	addr                                  string
	status                                int
	connectTime, headerTime, responseTime time.Duration
	bodyBytes                             int64
}

func (t *attempts) add(addr string) *attemptRecord {
	if !t.isKept {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.first
	if len(t.records) > 0 {
		s = new(attemptRecord)
	}
	*s = attemptRecord{addr: addr, connectTime: -1, headerTime: -1, responseTime: -1}
	if t.records == nil {
		t.records = t.space[:0]
	}
	t.records = append(t.records, s)
	return s
}

// addNoServer records that no server was available.
func (t *attempts) addNoServer(group string) {
	s := t.add(group)
	t.setHead(s, 502, -1)
	t.setEnd(s, 0)
}

func (t *attempts) setConnected(s *attemptRecord, elapsed time.Duration) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.connectTime = elapsed
}

func (t *attempts) setHead(s *attemptRecord, status int, elapsed time.Duration) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.status, s.headerTime = status, elapsed
	if s.connectTime < 0 && elapsed >= 0 {
		s.connectTime = 0 // on a reused connection
	}
}

func (t *attempts) addBytes(s *attemptRecord, n int) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.bodyBytes += int64(n)
}

func (t *attempts) setEnd(s *attemptRecord, elapsed time.Duration) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.responseTime = elapsed
}

// attemptList joins one value of all attempts as nginx does: with commas within an upstream
// request, with colons between them.
func (x *exchange) attemptList(value func(*attemptRecord) string) string {
	if x.proxy == nil {
		return ""
	}
	if len(x.proxy.attempts) == 1 {
		return x.proxy.attempts[0].list(value)
	}
	var b strings.Builder
	for i, t := range x.proxy.attempts {
		if i > 0 {
			b.WriteString(" : ")
		}
		b.WriteString(t.list(value))
	}
	return b.String()
}

// list joins one value of the attempts.
func (t *attempts) list(value func(*attemptRecord) string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.records) == 1 {
		return value(t.records[0])
	}
	var b strings.Builder
	for i, s := range t.records {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(value(s))
	}
	return b.String()
}

// attemptTime formats a duration of an attempt, "-" if it is unknown.
func attemptTime(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return seconds(d)
}

func attemptStatus(s *attemptRecord) string {
	if s.status == 0 {
		return "-"
	}
	return strconv.Itoa(s.status)
}
