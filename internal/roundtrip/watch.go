package roundtrip

import (
	"context"
	"errors"
	"io"
)

// Ender is told that a context has ended, from a goroutine of its own.
type Ender interface{ ContextEnded() }

// watcher is a context that tells of its end without a function made for that.
type watcher interface {
	Watch(e Ender)
	Unwatch(e Ender) (before bool)
}

// ownAfterFunc is a context that has an AfterFunc of its own.
type afterFuncer interface {
	AfterFunc(f func()) (stop func() bool)
}

// Watch is somebody's waiting for the end of a context, in as little memory as that takes.
type ContextWatch struct{ stop func() bool }

// WatchContext has an Ender told of a context's end, if it may end. A context that can do so by itself is not asked for Done, which
// may cost it more.
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

// Stop ends the waiting for a context's end. Who is told by then cannot be stopped.
func (w ContextWatch) Stop(ctx context.Context, e Ender) {
	if w.stop != nil {
		w.stop()
	} else if c, ok := ctx.(watcher); ok {
		c.Unwatch(e)
	}
}

// Cause says why a context has ended. io.EOF would be taken for the end of a body.
func Cause(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, io.EOF) {
		return cause
	}
	return ctx.Err()
}
