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
	ending
	parent  context.Context
	to      *sending
	addr    string
	step    *step // nil if nobody asks
	url     url.URL
	request http.Request
	began   time.Time
	unsent  bool // as far as FastCGI tells

	patience atomic.Int64 // how long the server may be silent
	since    atomic.Int64 // when waiting for it began, in nanoseconds since began; -1 if nobody waits
	slow     atomic.Bool  // it is watched: since is exact

	unseen         bool // it has ended, and nobody was to be told, nor watched
	young          bool // it is in the nursery, whose mu guards these
	older, younger *attempt
}

// begin begins an attempt.
func (s *sending) begin(ctx context.Context, addr string) *attempt {
	a := &s.first
	if a.to != nil {
		a = new(attempt)
	}
	a.to, a.addr, a.parent, a.began = s, addr, ctx, time.Now()
	a.step = s.trail.begin(addr)
	a.patience.Store(int64(s.pass.readTimeout))
	s.pass.attempts.add(a)
	return a
}

// sentBody is a request's body on its way to a server. While its client is waited for, the server is not.
type sentBody struct {
	io.ReadCloser
	a *attempt
}

// sends returns the body such that it shows what has become of it.
func (a *attempt) sends(body io.ReadCloser) io.ReadCloser {
	if _, ok := body.(*memoryBody); ok || body == http.NoBody {
		return body
	}
	a.patience.Store(int64(a.to.pass.sendTimeout))
	return &sentBody{body, a}
}

// Read implements io.Reader.
func (b *sentBody) Read(p []byte) (int, error) {
	b.a.since.Store(-1)
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.a.patience.Store(int64(b.a.to.pass.readTimeout))
	} else if err != nil {
		err = &bodyError{err}
	}
	b.a.waits()
	return n, err
}

// bodyError is why a client's body could not be read.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }

// waits is called before the server is waited for, received when that is over.
func (a *attempt) waits() {
	now := time.Duration(0)
	if a.slow.Load() {
		now = time.Since(a.began)
	}
	a.since.Store(int64(now))
}

func (a *attempt) received(n int) {
	a.since.Store(-1)
	if n > 0 {
		a.to.trail.grow(a.step, n)
	}
}

// dials is called by who opens a connection, which is bounded otherwise, connected when that is over.
func (a *attempt) dials() { a.since.Store(-1) }

func (a *attempt) connected(took time.Duration, err error) {
	if err == nil {
		a.to.trail.connected(a.step, took)
	}
	a.waits()
}

// took is how long it has taken so far, if somebody asks.
func (a *attempt) took() time.Duration {
	if a.step == nil {
		return 0
	}
	return time.Since(a.began)
}

// answered notes the head of the answer.
func (a *attempt) answered(status int) {
	a.since.Store(-1)
	a.to.trail.answered(a.step, status, a.took())
}

// failed notes that there is none.
func (a *attempt) failed(f *fetchError) {
	status := f.status
	if f.kind == gone {
		status = 0 // the server did not fail
	}
	a.to.trail.answered(a.step, status, -1)
	a.end()
}

// finish ends the attempt with its answer's body.
func (a *attempt) finish(failed bool) {
	if a.end() {
		a.to.turn.Done(failed)
	}
}

// end stops what watches, once.
func (a *attempt) end() bool {
	if !a.settle() {
		return false
	}
	a.to.trail.end(a.step, a.took())
	return true
}

// trail is what variables tell of the servers that were asked. It has no steps if the plan has no such variables.
type trail struct {
	kept  bool
	mu    sync.Mutex // a cache may go on asking behind the client's back
	steps []*step
	first step
	room  [1]*step
}

// step is one of them. Times are below zero if they are not known.
type step struct {
	addr                   string
	status                 int
	connect, header, whole time.Duration
	bytes                  int64
}

func (t *trail) begin(addr string) *step {
	if !t.kept {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.first
	if len(t.steps) > 0 {
		s = new(step)
	}
	*s = step{addr: addr, connect: -1, header: -1, whole: -1}
	if t.steps == nil {
		t.steps = t.room[:0]
	}
	t.steps = append(t.steps, s)
	return s
}

// none notes that no server could be asked.
func (t *trail) none(group string) {
	s := t.begin(group)
	t.answered(s, 502, -1)
	t.end(s, 0)
}

func (t *trail) connected(s *step, took time.Duration) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.connect = took
}

func (t *trail) answered(s *step, status int, took time.Duration) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.status, s.header = status, took
	if s.connect < 0 && took >= 0 {
		s.connect = 0 // the connection was there
	}
}

func (t *trail) grow(s *step, n int) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.bytes += int64(n)
}

func (t *trail) end(s *step, took time.Duration) {
	if s == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.whole = took
}

// told lists what of each step of each pass, as nginx does: those of a pass with commas, passes with colons.
func (x *exchange) told(what func(*step) string) string {
	if x.passing == nil {
		return ""
	}
	if len(x.trail) == 1 {
		return x.trail[0].told(what)
	}
	var b strings.Builder
	for i, t := range x.trail {
		if i > 0 {
			b.WriteString(" : ")
		}
		b.WriteString(t.told(what))
	}
	return b.String()
}

// told is what the steps of one pass have to tell.
func (t *trail) told(what func(*step) string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steps) == 1 {
		return what(t.steps[0])
	}
	var b strings.Builder
	for i, s := range t.steps {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(what(s))
	}
	return b.String()
}

// passed is a time of a step, "-" if it is not known.
func passed(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return seconds(d)
}

func stepStatus(s *step) string {
	if s.status == 0 {
		return "-"
	}
	return strconv.Itoa(s.status)
}
