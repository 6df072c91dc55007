package client

import (
	"context"
	"errors"
	"io"
)

// Ender is notified of the end of a context, in a goroutine of its own.
type Ender interface{ ContextEnded() }

// Watcher is a context that notifies an Ender without allocating a function.
type Watcher interface {
	Watch(e Ender)
	// Unwatch removes e, and reports false if e has been or is being notified.
	Unwatch(e Ender) (before bool)
}

// afterFuncer is a context with an AfterFunc of its own.
type afterFuncer interface {
	AfterFunc(f func()) (stop func() bool)
}

// contextWatch stops the wait for the end of a context. It is nil for a Watcher, which stops by
// itself, and for a context that never ends.
type contextWatch func() bool

// watchContext notifies e when ctx ends. It does not call ctx.Done if ctx has a way of its own to
// notify, because Done may cost more.
func watchContext(ctx context.Context, e Ender) contextWatch {
	switch c := ctx.(type) {
	case Watcher:
		c.Watch(e)
		return nil
	case afterFuncer:
		return c.AfterFunc(e.ContextEnded)
	}
	if ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, e.ContextEnded)
}

// stop stops the wait. It reports false if the Ender has been or is being notified.
func (w contextWatch) stop(ctx context.Context, e Ender) bool {
	if w != nil {
		return w()
	}
	c, ok := ctx.(Watcher)
	return !ok || c.Unwatch(e)
}

// contextCause returns the cause of a context's end. It never returns io.EOF, which would mean the
// end of a body.
func contextCause(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, io.EOF) {
		return cause
	}
	return ctx.Err()
}
