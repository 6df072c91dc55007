package load

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// thinkers is a heap of the connections that pause between requests, the earliest end first.
type thinkers []thinker

type thinker struct {
	wake int64
	id   int
}

func (t thinkers) Len() int           { return len(t) }
func (t thinkers) Less(i, j int) bool { return t[i].wake < t[j].wake }
func (t thinkers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *thinkers) Push(x any)        { *t = append(*t, x.(thinker)) } //nolint:forcetypeassert // always a thinker
func (t *thinkers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	*t = (*t)[:last]
	return x
}

// startThinking pauses a connection for a random time, up to Plan.Think.
func (w *worker) startThinking(id int) {
	if w.plan.Think == 0 {
		return
	}
	c := &w.conns[id]
	c.reusable.thinkUntil = w.now + rand.Int64N(int64(w.plan.Think)+1)
	heap.Push(&w.thinking, thinker{c.reusable.thinkUntil, id})
}

// resumeThinkers sends on the connections whose pause is over and sets the timer for the next.
func (w *worker) resumeThinkers() {
	if w.plan.Think == 0 || w.paused {
		return
	}
	w.now = w.nanos()
	for len(w.thinking) > 0 && w.thinking[0].wake <= w.now {
		t := heap.Pop(&w.thinking).(thinker) //nolint:forcetypeassert // thinkers hold nothing else
		if w.conns[t.id].state == open {
			w.sendDue(t.id)
		}
	}
	if len(w.thinking) > 0 {
		w.timer.set(time.Duration(w.thinking[0].wake - w.now))
	}
}
