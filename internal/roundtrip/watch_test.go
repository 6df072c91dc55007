package roundtrip

import (
	"context"
	"errors"
	"io"
	"testing"
)

type ender chan bool

func (e ender) ContextEnded() { e <- true }

// own is a context that notifies of its end by itself, in one of two ways. Its Done must not be
// called.
type own struct {
	context.Context
	t       *testing.T
	waiting []Ender
}

func (c *own) Done() <-chan struct{} { c.t.Error("asked for Done"); return nil }
func (c *own) Watch(e Ender)         { c.waiting = append(c.waiting, e) }
func (c *own) Unwatch(Ender) bool    { c.waiting = nil; return true }

type afterFuncs struct {
	context.Context
	t       *testing.T
	waiting []func()
}

func (c *afterFuncs) Done() <-chan struct{} { c.t.Error("asked for Done"); return nil }
func (c *afterFuncs) AfterFunc(f func()) (stop func() bool) {
	c.waiting = append(c.waiting, f)
	return func() bool { c.waiting = nil; return true }
}

func TestContextWatchNotifiesUntilStopped(t *testing.T) {
	told := make(ender, 1)
	never := WatchContext(context.Background(), told)
	never.Stop(context.Background(), told)

	ctx, cancel := context.WithCancelCause(t.Context())
	alone := make(ender)
	stopped, waits := WatchContext(ctx, alone), WatchContext(ctx, told)
	stopped.Stop(ctx, alone) // otherwise its goroutine waits forever
	cancel(io.EOF)
	<-told
	waits.Stop(ctx, told)
	if err := Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v: io.EOF would end a body", err)
	}

	a := &own{Context: t.Context(), t: t}
	w := WatchContext(a, told)
	if len(a.waiting) != 1 || a.waiting[0] != Ender(told) {
		t.Error("a context of its own is not asked")
	}
	if w.Stop(a, told); len(a.waiting) != 0 {
		t.Error("it goes on")
	}
	b := &afterFuncs{Context: t.Context(), t: t}
	w = WatchContext(b, told)
	b.waiting[0]()
	<-told
	if w.Stop(b, told); b.waiting != nil {
		t.Error("it goes on")
	}
}
