package roundtrip

import (
	"context"
	"errors"
	"io"
)

// Ender is notified of the end of a context, in a goroutine of its own.
type Ender interface{ ContextEnded() }

// watcher is a context that notifies an Ender without allocating a function.
type watcher interface {
	Watch(e Ender)
	Unwatch(e Ender) (before bool)
}

// afterFuncer is a context with an AfterFunc of its own.
type afterFuncer interface {
	AfterFunc(f func()) (stop func() bool)
}

// ContextWatch waits for the end of a context, with as little memory as possible.
type ContextWatch struct{ stop func() bool }

// WatchContext notifies e when ctx ends. It does not call ctx.Done if ctx has a way of its own to
// notify, because Done may cost more.
func WatchContext(ctx context.Context, e Ender) ContextWatch {
	switch c := ctx.(type) {
	case watcher:
		c.Watch(e)
		return ContextWatch{}
	case afterFuncer:
		return ContextWatch{c.AfterFunc(e.ContextEnded)}
	}
	if ctx.Done() == nil {
		return ContextWatch{}
	}
	return ContextWatch{context.AfterFunc(ctx, e.ContextEnded)}
}

// Stop stops the wait. An Ender may already be about to be notified.
func (w ContextWatch) Stop(ctx context.Context, e Ender) {
	if w.stop != nil {
		w.stop()
	} else if c, ok := ctx.(watcher); ok {
		c.Unwatch(e)
	}
}

// Cause returns the cause of a context's end. It never returns io.EOF, which would mean the end of
// a body.
func Cause(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, io.EOF) {
		return cause
	}
	return ctx.Err()
}
