// Package interrupt ends a context at a signal, and the process at the second one.
package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

// Context returns a context that ends at the first of some signals; its cause names the signal.
// From then on, or when parent ends, the signals have their default action: a second one ends the
// process, however soon it follows. The program may handle the same signals elsewhere to end
// parent.
//
// stop ends the context and gives the signals their default action.
func Context(parent context.Context, signals ...os.Signal) (ctx context.Context, stop func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, signals...)
	ctx, end := context.WithCancelCause(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		endByTwo(ctx, end, c, func() { signal.Stop(c) }, raise)
	}()
	return ctx, func() {
		end(nil)
		<-done
	}
}

// endByTwo ends a context at the first signal from c, and then calls reset, which gives signals
// their default action. A second one may have arrived meanwhile: it is raised again.
func endByTwo(ctx context.Context, end context.CancelCauseFunc, c <-chan os.Signal, reset func(),
	raise func(os.Signal)) {
	var last os.Signal
	count := 0
	select {
	case last = <-c:
		count++
		end(fmt.Errorf("%v signal received", last))
	case <-ctx.Done(): // perhaps because of a signal that is in c, too
	}
	reset()
	for len(c) > 0 {
		last = <-c
		count++
	}
	if count > 1 {
		raise(last)
	}
}
