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
const lookAfter = 10 * time.Millisecond

// never is a time that does not come.
const never = 1 << 62

// errSilent is why an attempt ends whose server is silent for too long.
var errSilent = errors.New("the upstream timed out")

// nursery is attempts that are too young to be watched, the oldest first. One timer looks at them now and then, as long as there are
// any: a timer for each, and a place in the context of each request, cost a twelfth of passing it on.
type nursery struct {
	mu    sync.Mutex
	first *attempt
	last  *attempt
	timer *time.Timer
	runs  bool // the timer does
}

// add takes an attempt in.
func (n *nursery) add(a *attempt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a.young, a.older = true, n.last
	if n.last != nil {
		n.last.younger = a
	} else {
		n.first = a
	}
	n.last = a
	if n.runs {
		return
	}
	n.runs = true
	if n.timer == nil {
		n.timer = time.AfterFunc(lookAfter, n.look)
	} else {
		n.timer.Reset(lookAfter)
	}
}

// remove lets an attempt go, and reports whether it was still here.
func (n *nursery) remove(a *attempt) (young bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	young = a.young
	n.unlink(a)
	return young
}

// unlink is remove. The caller holds mu.
func (n *nursery) unlink(a *attempt) {
	if !a.young {
		return
	}
	if a.older != nil {
		a.older.younger = a.younger
	} else {
		n.first = a.younger
	}
	if a.younger != nil {
		a.younger.older = a.older
	} else {
		n.last = a.older
	}
	a.young, a.older, a.younger = false, nil, nil
}

// look has those watched that are no longer young.
func (n *nursery) look() {
	var grown []*attempt
	n.mu.Lock()
	for a := n.first; a != nil && time.Since(a.began) >= lookAfter; a = n.first {
		n.unlink(a)
		grown = append(grown, a)
	}
	if n.runs = n.first != nil; n.runs {
		n.timer.Reset(lookAfter)
	}
	n.mu.Unlock()
	for _, a := range grown {
		a.arm()
	}
}

// ending is an attempt as a context: it ends with its client's, or if its server is silent for too long. Neither is watched for before
// it is some milliseconds old, or somebody asks for Done.
type ending struct {
	mu     sync.Mutex
	armed  bool
	over   bool
	err    error
	done   chan struct{}
	after  map[roundtrip.Ender]struct{} // who is told, but for the first
	single roundtrip.Ender
	detach func() bool // from the parent
	watch  *time.Timer
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
	a.arm()
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
	case a.single == nil:
		a.single = e
	default:
		if a.after == nil {
			a.after = make(map[roundtrip.Ender]struct{})
		}
		a.after[e] = struct{}{}
	}
}

// Unwatch has somebody not be told, unless that has been done.
func (a *attempt) Unwatch(e roundtrip.Ender) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.single == e {
		a.single = nil
		return true
	}
	_, pending := a.after[e]
	delete(a.after, e)
	return pending
}

// AfterFunc is what package context looks for.
func (a *attempt) AfterFunc(f func()) (stop func() bool) {
	e := &afterFunc{f}
	a.Watch(e)
	return func() bool { return a.Unwatch(e) }
}

type afterFunc struct{ call func() }

// ContextEnded implements roundtrip.Ender.
func (f *afterFunc) ContextEnded() { f.call() }

// arm begins to watch, once.
func (a *attempt) arm() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.armed || a.over {
		return
	}
	a.armed = true
	a.slow.Store(true)
	a.since.CompareAndSwap(0, int64(time.Since(a.began)))
	a.watch = time.AfterFunc(never, a.look)
	a.lookAgain(time.Duration(a.patience.Load())) // which is behind the assignment
	if a.parent.Done() != nil {
		a.detach = context.AfterFunc(a.parent, func() { a.cancel(context.Cause(a.parent)) })
	}
}

// look ends the attempt if its server is silent for too long.
func (a *attempt) look() {
	left := time.Duration(a.patience.Load())
	if since := a.since.Load(); since >= 0 {
		if left -= time.Since(a.began) - time.Duration(since); left <= 0 {
			a.cancel(errSilent)
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.lookAgain(left)
	}
}

// lookAgain has look called when so much time has passed. When a body has been sent there may be less patience than while it was.
// The caller holds mu.
func (a *attempt) lookAgain(left time.Duration) { a.watch.Reset(min(left, a.to.pass.readTimeout)) }

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
	single, after := a.single, a.after
	a.single, a.after = nil, nil
	a.mu.Unlock()
	if single != nil {
		go single.ContextEnded()
	}
	for e := range after {
		go e.ContextEnded()
	}
}

// settle ends watching, and the context. It reports false if that was done.
func (a *attempt) settle() bool {
	a.mu.Lock()
	if a.over {
		a.mu.Unlock()
		return false
	}
	a.over = true
	if a.armed {
		a.watch.Stop()
	}
	detach, unseen := a.detach, !a.armed && a.single == nil && len(a.after) == 0
	a.mu.Unlock()
	a.unseen = a.to.pass.attempts.remove(a) && unseen
	if detach != nil {
		detach()
	}
	a.cancel(context.Canceled)
	return true
}
