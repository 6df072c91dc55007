package engine

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// requestContext is the context of one request. It is cancelled when the handler
// returns, when the client goes away, and when the connection's own context is.
//
// Nothing is spent on that until somebody asks: most handlers never look at their
// context, so the channel, the link to the parent and the watch for the client's
// departure are made by the first Done, Err or AfterFunc. context.WithCancel per
// request would cost two allocations and a place in the parent's map.
type requestContext struct {
	link link
	body *body // starts looking out for the client's departure

	mu       sync.Mutex // guards the handler's deadlines, too: see response.setDeadline
	ended    bool
	departed bool   // the client has gone
	asked    *asked // made when somebody first asks
}

// asked is what a context needs that somebody looks at.
type asked struct {
	err    error         // not nil once it has ended
	done   chan struct{} // made by the first Done
	detach func() bool   // unlinks it from the parent
	after  map[*func()]struct{}
	notify chan bool // made by the first CloseNotify
}

var _ context.Context = (*requestContext)(nil)

func (c *requestContext) parent() context.Context { return c.link.context() }

func (c *requestContext) Deadline() (time.Time, bool) { return c.parent().Deadline() }

// Value answers http.LocalAddrContextKey and what package connection asks itself, which
// saves every connection a context of its own.
func (c *requestContext) Value(key any) any {
	if key == http.LocalAddrContextKey {
		return c.link.raw().LocalAddr()
	}
	if connection.IsKey(key) {
		info, _ := c.link.(connection.Info)
		return info
	}
	if key == (fastCGIKey{}) && c.body.x.fastCGI() != nil {
		return c.body.x.fastCGI()
	}
	return c.parent().Value(key)
}

func (c *requestContext) Done() <-chan struct{} {
	c.arm()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.done == nil {
		c.asked.done = make(chan struct{})
		if c.ended {
			close(c.asked.done)
		}
	}
	return c.asked.done
}

func (c *requestContext) Err() error {
	c.arm()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked.err
}

// AfterFunc lets package context derive contexts from this one without starting a
// goroutine for each.
func (c *requestContext) AfterFunc(f func()) (stop func() bool) {
	c.arm()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		go f()
		return func() bool { return false }
	}
	key, a := &f, c.asked
	if a.after == nil {
		a.after = make(map[*func()]struct{})
	}
	a.after[key] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, pending := a.after[key]
		delete(a.after, key)
		return pending
	}
}

// arm links the context to its parent and starts the watch, once.
func (c *requestContext) arm() {
	c.mu.Lock()
	if c.asked != nil {
		c.mu.Unlock()
		return
	}
	c.asked = new(asked)
	if c.ended {
		c.asked.err = context.Canceled
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	if err := c.parent().Err(); err != nil {
		c.cancel(err)
		return
	}
	if c.parent().Done() != nil {
		detach := context.AfterFunc(c.parent(), func() { c.cancel(c.parent().Err()) })
		c.mu.Lock()
		if c.asked.detach = detach; c.ended {
			detach()
		}
		c.mu.Unlock()
	}
	c.body.watch()
}

// departure returns a channel that receives a value when the client goes away, as http.CloseNotifier demands.
func (c *requestContext) departure() <-chan bool {
	c.arm()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.notify == nil {
		c.asked.notify = make(chan bool, 1)
		if c.departed {
			c.asked.notify <- true
		}
	}
	return c.asked.notify
}

// depart ends the context because the client has gone.
func (c *requestContext) depart() {
	c.mu.Lock()
	again := c.departed
	c.departed = true
	if !again && c.asked != nil && c.asked.notify != nil {
		c.asked.notify <- true
	}
	c.mu.Unlock()
	c.cancel(context.Canceled)
}

// cancel ends the context; only the first call counts. It reports whether anybody had
// asked for it: if not, nobody will start a watch any more, and whoever asks later learns
// of context.Canceled.
func (c *requestContext) cancel(err error) (wasAsked bool) {
	c.mu.Lock()
	a, again := c.asked, c.ended
	c.ended = true
	if again || a == nil {
		c.mu.Unlock()
		return a != nil
	}
	a.err = err
	if a.done != nil {
		close(a.done)
	}
	if a.detach != nil {
		a.detach()
	}
	after := a.after
	a.after = nil
	c.mu.Unlock()
	for f := range after {
		go (*f)()
	}
	return true
}
