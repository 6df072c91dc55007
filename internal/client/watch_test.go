package client

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

func (c *own) Done() <-chan struct{} { c.t.Error("Done was called"); return nil }
func (c *own) Watch(e Ender)         { c.waiting = append(c.waiting, e) }
func (c *own) Unwatch(Ender) bool    { c.waiting = nil; return true }

type afterFuncs struct {
	context.Context
	t       *testing.T
	waiting []func()
}

func (c *afterFuncs) Done() <-chan struct{} { c.t.Error("Done was called"); return nil }
func (c *afterFuncs) AfterFunc(f func()) (stop func() bool) {
	c.waiting = append(c.waiting, f)
	return func() bool { c.waiting = nil; return true }
}

func TestContextWatchNotifiesUntilStopped(t *testing.T) {
	notified := make(ender, 1)
	never := watchContext(context.Background(), notified)
	never.stop(context.Background(), notified)

	ctx, cancel := context.WithCancelCause(t.Context())
	alone := make(ender)
	stopped, waits := watchContext(ctx, alone), watchContext(ctx, notified)
	stopped.stop(ctx, alone) // otherwise its goroutine waits forever
	cancel(io.EOF)
	<-notified
	waits.stop(ctx, notified)
	if err := contextCause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v: io.EOF would end a body", err)
	}

	a := &own{Context: t.Context(), t: t}
	w := watchContext(a, notified)
	if len(a.waiting) != 1 || a.waiting[0] != Ender(notified) {
		t.Error("the Watch of the context was not called")
	}
	if w.stop(a, notified); len(a.waiting) != 0 {
		t.Error("the wait was not stopped")
	}
	b := &afterFuncs{Context: t.Context(), t: t}
	w = watchContext(b, notified)
	b.waiting[0]()
	<-notified
	if w.stop(b, notified); b.waiting != nil {
		t.Error("the wait was not stopped")
	}
}
