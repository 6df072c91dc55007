package front

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/roundtrip"
)

// lookAfter is how old an attempt is before anybody watches for its client's departure, or for its server's silence. Most end sooner,
// and never pay for that.
const timersAfter = 10 * time.Millisecond

// never is a time that does not come.
const farFuture = 1 << 62

// errSilent is why an attempt ends whose server is silent for too long.
var errUpstreamTimeout = errors.New("the upstream timed out")

// nursery is attempts that are too young to be watched, the oldest first. One timer looks at them now and then, as long as there are
// any: a timer for each, and a place in the context of each request, cost a twelfth of passing it on.
type pendingAttempts struct {
	mu        sync.Mutex
	first     *attempt
	last      *attempt
	timer     *time.Timer
	timerRuns bool // the timer does
}

// add takes an attempt in.
func (n *pendingAttempts) add(a *attempt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a.isPending, a.prev = true, n.last
	if n.last != nil {
		n.last.next = a
	} else {
		n.first = a
	}
	n.last = a
	if n.timerRuns {
		return
	}
	n.timerRuns = true
	if n.timer == nil {
		n.timer = time.AfterFunc(timersAfter, n.check)
	} else {
		n.timer.Reset(timersAfter)
	}
}

// remove lets an attempt go, and reports whether it was still here.
func (n *pendingAttempts) remove(a *attempt) (wasPending bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wasPending = a.isPending
	n.unlink(a)
	return wasPending
}

// unlink is remove. The caller holds mu.
func (n *pendingAttempts) unlink(a *attempt) {
	if !a.isPending {
		return
	}
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		n.first = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	} else {
		n.last = a.prev
	}
	a.isPending, a.prev, a.next = false, nil, nil
}

// look has those watched that are no longer young.
func (n *pendingAttempts) check() {
	var due []*attempt
	n.mu.Lock()
	for a := n.first; a != nil && time.Since(a.startTime) >= timersAfter; a = n.first {
		n.unlink(a)
		due = append(due, a)
	}
	if n.timerRuns = n.first != nil; n.timerRuns {
		n.timer.Reset(timersAfter)
	}
	n.mu.Unlock()
	for _, a := range due {
		a.startTimers()
	}
}

// ending is an attempt as a context: it ends with its client's, or if its server is silent for too long. Neither is watched for before
// it is some milliseconds old, or somebody asks for Done.
type attemptContext struct {
	mu           sync.Mutex
	hasTimers    bool
	isStopped    bool
	err          error
	done         chan struct{}
	otherEnders  map[roundtrip.Ender]struct{} // who is told, but for the first
	firstEnder   roundtrip.Ender
	detachParent func() bool // from the parent
	timer        *time.Timer
}

// Deadline implements context.Context.
func (a *attempt) Deadline() (time.Time, bool) { return a.parent.Deadline() }

// Value leads who dials to the attempt.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.parent.Value(key)
}

// Done implements context.Context.
func (a *attempt) Done() <-chan struct{} {
	a.startTimers()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done == nil {
		a.done = make(chan struct{})
		if a.err != nil {
			close(a.done)
		}
	}
	return a.done
}

// Err is why the attempt has ended, nil before. It looks no further: to ask the client's context would have that watched.
func (a *attempt) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Watch has somebody told of the end. Unlike Done it has nothing watched that is not yet.
func (a *attempt) Watch(e roundtrip.Ender) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.err != nil:
		go e.ContextEnded()
	case a.firstEnder == nil:
		a.firstEnder = e
	default:
		if a.otherEnders == nil {
			a.otherEnders = make(map[roundtrip.Ender]struct{})
		}
		a.otherEnders[e] = struct{}{}
	}
}

// Unwatch has somebody not be told, unless that has been done.
func (a *attempt) Unwatch(e roundtrip.Ender) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.firstEnder == e {
		a.firstEnder = nil
		return true
	}
	_, pending := a.otherEnders[e]
	delete(a.otherEnders, e)
	return pending
}

// AfterFunc is what package context looks for.
func (a *attempt) AfterFunc(f func()) (stop func() bool) {
	e := &afterFunc{f}
	a.Watch(e)
	return func() bool { return a.Unwatch(e) }
}

type afterFunc struct{ f func() }

// ContextEnded implements roundtrip.Ender.
func (f *afterFunc) ContextEnded() { f.f() }

// arm begins to watch, once.
func (a *attempt) startTimers() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hasTimers || a.isStopped {
		return
	}
	a.hasTimers = true
	a.needsExactTime.Store(true)
	a.waitingSince.CompareAndSwap(0, int64(time.Since(a.startTime)))
	a.timer = time.AfterFunc(farFuture, a.checkTimeout)
	a.resetTimer(time.Duration(a.timeout.Load())) // which is behind the assignment
	if a.parent.Done() != nil {
		a.detachParent = context.AfterFunc(a.parent, func() { a.cancel(context.Cause(a.parent)) })
	}
}

// look ends the attempt if its server is silent for too long.
func (a *attempt) checkTimeout() {
	left := time.Duration(a.timeout.Load())
	if since := a.waitingSince.Load(); since >= 0 {
		if left -= time.Since(a.startTime) - time.Duration(since); left <= 0 {
			a.cancel(errUpstreamTimeout)
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.isStopped {
		a.resetTimer(left)
	}
}

// lookAgain has look called when so much time has passed. When a body has been sent there may be less patience than while it was.
// The caller holds mu.
func (a *attempt) resetTimer(left time.Duration) { a.timer.Reset(min(left, a.req.proxy.readTimeout)) }

// cancel ends the context. Only the first call counts.
func (a *attempt) cancel(cause error) {
	a.mu.Lock()
	if a.err != nil {
		a.mu.Unlock()
		return
	}
	a.err = cause
	if a.done != nil {
		close(a.done)
	}
	firstEnder, otherEnders := a.firstEnder, a.otherEnders
	a.firstEnder, a.otherEnders = nil, nil
	a.mu.Unlock()
	if firstEnder != nil {
		go firstEnder.ContextEnded()
	}
	for e := range otherEnders {
		go e.ContextEnded()
	}
}

// settle ends watching, and the context. It reports false if that was done.
func (a *attempt) stop() bool {
	a.mu.Lock()
	if a.isStopped {
		a.mu.Unlock()
		return false
	}
	a.isStopped = true
	if a.hasTimers {
		a.timer.Stop()
	}
	detachParent, unobserved := a.detachParent, !a.hasTimers && a.firstEnder == nil && len(a.otherEnders) == 0
	a.mu.Unlock()
	a.wasUnobserved = a.req.proxy.pending.remove(a) && unobserved
	if detachParent != nil {
		detachParent()
	}
	a.cancel(context.Canceled)
	return true
}
