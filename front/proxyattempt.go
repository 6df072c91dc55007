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

// attemptKey is how the context of a request leads to its attempt.
type attemptKey struct{}

// attempt is one server asked. It is the context of that, see ending.
type attempt struct {
	attemptContext
	parent      context.Context
	req         *upstreamRequest
	addr        string
	record      *attemptRecord // nil if nobody asks
	url         url.URL
	httpRequest http.Request
	startTime   time.Time
	notSent     bool // as far as FastCGI tells

	timeout        atomic.Int64 // how long the server may be silent
	waitingSince   atomic.Int64 // when waiting for it began, in nanoseconds since began; -1 if nobody waits
	needsExactTime atomic.Bool  // it is watched: since is exact

	wasUnobserved bool // it has ended, and nobody was to be told, nor watched
	isPending     bool // it is in the nursery, whose mu guards these
	prev, next    *attempt
}

// begin begins an attempt.
func (s *upstreamRequest) startAttempt(ctx context.Context, addr string) *attempt {
	a := &s.firstAttempt
	if a.req != nil {
		a = new(attempt)
	}
	a.req, a.addr, a.parent, a.startTime = s, addr, ctx, time.Now()
	a.record = s.attempts.add(addr)
	a.timeout.Store(int64(s.proxy.readTimeout))
	s.proxy.pending.add(a)
	return a
}

// sentBody is a request's body on its way to a server. While its client is waited for, the server is not.
type upstreamBody struct {
	io.ReadCloser
	attempt *attempt
}

// sends returns the body such that it shows what has become of it.
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

// bodyError is why a client's body could not be read.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }

// waits is called before the server is waited for, received when that is over.
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

// dials is called by who opens a connection, which is bounded otherwise, connected when that is over.
func (a *attempt) startDial() { a.waitingSince.Store(-1) }

func (a *attempt) endDial(elapsed time.Duration, err error) {
	if err == nil {
		a.req.attempts.setConnected(a.record, elapsed)
	}
	a.startWait()
}

// took is how long it has taken so far, if somebody asks.
func (a *attempt) elapsed() time.Duration {
	if a.record == nil {
		return 0
	}
	return time.Since(a.startTime)
}

// answered notes the head of the answer.
func (a *attempt) headReceived(status int) {
	a.waitingSince.Store(-1)
	a.req.attempts.setHead(a.record, status, a.elapsed())
}

// failed notes that there is none.
func (a *attempt) fail(f *fetchError) {
	status := f.status
	if f.kind == failureClientGone {
		status = 0 // the server did not fail
	}
	a.req.attempts.setHead(a.record, status, -1)
	a.end()
}

// finish ends the attempt with its answer's body.
func (a *attempt) finish(failed bool) {
	if a.end() {
		a.req.turn.Done(failed)
	}
}

// end stops what watches, once.
func (a *attempt) end() bool {
	if !a.stop() {
		return false
	}
	a.req.attempts.setEnd(a.record, a.elapsed())
	return true
}

// trail is what variables tell of the servers that were asked. It has no steps if the plan has no such variables.
type attempts struct {
	isKept  bool
	mu      sync.Mutex // a cache may go on asking behind the client's back
	records []*attemptRecord
	first   attemptRecord
	space   [1]*attemptRecord
}

// step is one of them. Times are below zero if they are not known.
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

// none notes that no server could be asked.
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
		s.connectTime = 0 // the connection was there
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

// told lists what of each step of each pass, as nginx does: those of a pass with commas, passes with colons.
func (x *exchange) attemptList(value func(*attemptRecord) string) string {
	if x.proxyState == nil {
		return ""
	}
	if len(x.attempts) == 1 {
		return x.attempts[0].list(value)
	}
	var b strings.Builder
	for i, t := range x.attempts {
		if i > 0 {
			b.WriteString(" : ")
		}
		b.WriteString(t.list(value))
	}
	return b.String()
}

// told is what the steps of one pass have to tell.
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

// passed is a time of a step, "-" if it is not known.
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
