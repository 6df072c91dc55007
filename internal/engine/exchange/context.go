package exchange

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// requestContext is the context of one request. It is canceled when the handler returns, when the
// client leaves, and when the connection's own context is canceled.
//
// It does nothing until it is used, because most handlers never use their context. The first call
// of Done, Err or AfterFunc creates the channel, the link to the parent and the departure watch. A
// context.WithCancel for each request would cost two allocations and an entry in the parent's map:
// 205 ns instead of 6.
type requestContext struct {
	transport Transport
	body      *Body // starts the departure watch

	mu    sync.Mutex // also guards the handler's deadlines: see Response.setDeadline
	ended bool
	use   *contextUse // nil until the first use
}

type contextUse struct {
	err        error         // not nil once the context has ended
	done       chan struct{} // closed once the context has ended
	unlink     func() bool   // unlinks the context from its parent
	afterFuncs map[*func()]struct{}
	notify     chan bool // made by the first closeNotify
}

var _ context.Context = (*requestContext)(nil)

func (c *requestContext) parent() context.Context { return c.transport.Context() }

func (c *requestContext) Deadline() (time.Time, bool) { return c.parent().Deadline() }

// Value returns the values of http.LocalAddrContextKey and package connection itself. This saves a
// context for each connection.
func (c *requestContext) Value(key any) any {
	if key == http.LocalAddrContextKey {
		return c.transport.LocalAddr()
	}
	if connection.IsKey(key) {
		return connection.Info(c.transport)
	}
	if e := c.body.Exchange.Extras; e != nil {
		if v := e.Value(key); v != nil {
			return v
		}
	}
	return c.parent().Value(key)
}

func (c *requestContext) Done() <-chan struct{} { return c.activate().done }

func (c *requestContext) Err() error {
	use := c.activate()
	c.mu.Lock()
	defer c.mu.Unlock()
	return use.err
}

// AfterFunc allows package context to derive contexts without a goroutine for each.
func (c *requestContext) AfterFunc(f func()) (stop func() bool) {
	use, key := c.activate(), &f
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		go f()
		return func() bool { return false }
	}
	if use.afterFuncs == nil {
		use.afterFuncs = make(map[*func()]struct{})
	}
	use.afterFuncs[key] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, pending := use.afterFuncs[key]
		delete(use.afterFuncs, key)
		return pending
	}
}

// activate returns the state of a context that is in use. The first call links the context to its
// parent and starts the departure watch.
func (c *requestContext) activate() *contextUse {
	c.mu.Lock()
	use, hasEnded := c.use, c.ended
	if use != nil {
		c.mu.Unlock()
		return use
	}
	use = &contextUse{done: make(chan struct{})}
	if c.use = use; hasEnded {
		use.err = context.Canceled
		close(use.done)
	}
	c.mu.Unlock()
	parent := c.parent()
	switch err := parent.Err(); {
	case hasEnded:
		return use
	case err != nil:
		c.cancel(err)
		return use
	case parent.Done() != nil:
		unlink := context.AfterFunc(parent, func() { c.cancel(parent.Err()) })
		c.mu.Lock()
		if use.unlink = unlink; c.ended {
			unlink()
		}
		c.mu.Unlock()
	}
	c.body.watchDeparture()
	return use
}

// closeNotify returns a channel that receives a value if the context ends before the handler
// returns, for http.CloseNotifier.
func (c *requestContext) closeNotify() <-chan bool {
	use := c.activate()
	c.mu.Lock()
	defer c.mu.Unlock()
	if use.notify == nil {
		if use.notify = make(chan bool, 1); c.ended {
			use.notify <- true
		}
	}
	return use.notify
}

// cancel ends the context. Only the first call has an effect. It reports whether the context was
// used before: if not, no departure watch can start any more, and later uses find context.Canceled.
func (c *requestContext) cancel(err error) (wasUsed bool) {
	c.mu.Lock()
	use, again := c.use, c.ended
	c.ended = true
	if again || use == nil {
		c.mu.Unlock()
		return use != nil
	}
	use.err = err
	close(use.done)
	if use.notify != nil && !c.body.Exchange.Response.HasReturned() {
		use.notify <- true
	}
	if use.unlink != nil {
		use.unlink()
	}
	after := use.afterFuncs
	use.afterFuncs = nil
	c.mu.Unlock()
	for f := range after {
		go (*f)()
	}
	return true
}
