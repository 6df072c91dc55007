// Package interrupt ends contexts at signals, and the process at one more.
package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// Context returns a context that ends at the first of some signals; its cause names the signal.
// After repeatTime, or when parent ends, the signals have their default action: a second one ends
// the process. The program may handle the same signals elsewhere to end parent.
//
// stop ends the context and gives the signals their default action: after a signal not before
// repeatTime, since a repeated one must not end a program that is about to exit.
func Context(parent context.Context, signals ...os.Signal) (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(parent)
	return ctx, endInTurn(ctx, signals, end)
}

// Contexts is Context for programs that do something else at the second signal: another context
// ends then, which does not end with parent. A third signal ends the process.
func Contexts(parent context.Context, signals ...os.Signal) (first, second context.Context, stop func()) {
	first, endFirst := context.WithCancelCause(parent)
	second, endSecond := context.WithCancelCause(context.WithoutCancel(parent))
	return first, second, endInTurn(second, signals, endFirst, endSecond)
}

// repeatTime is how long the signals after one count as the same one: timeout(1) sends a signal to its
// child, and then to the group of both.
const repeatTime = 100 * time.Millisecond

// endInTurn ends contexts, of which last is the last one, at one signal each.
func endInTurn(last context.Context, signals []os.Signal, ends ...context.CancelCauseFunc) (stop func()) {
	c := make(chan os.Signal, len(ends)+1)
	signal.Notify(c, signals...)
	arrived, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		receive(last, c, ends, arrived, func() { signal.Stop(c) }, raise)
	}()
	return func() {
		for _, end := range ends {
			end(nil)
		}
		select {
		case <-arrived:
		case <-done:
		}
	}
}

// receive ends a context at each signal from c, and then calls reset, which gives signals their
// default action. One more may have arrived meanwhile: it is raised again. arrived is closed at the
// first signal.
func receive(last context.Context, c <-chan os.Signal, ends []context.CancelCauseFunc, arrived chan<- struct{},
	reset func(), raise func(os.Signal)) {
	var latest os.Signal
	received := 0
	for last.Err() == nil {
		select {
		case latest = <-c:
			if received == 0 {
				close(arrived)
			}
			ends[received](fmt.Errorf("%v signal received", latest))
			received++
			time.Sleep(repeatTime)
			for len(c) > 0 {
				<-c
			}
		case <-last.Done(): // perhaps because of a signal that is in c, too
		}
	}
	reset()
	for len(c) > 0 {
		latest = <-c
		received++
	}
	if received > len(ends) {
		raise(latest)
	}
}

// raise sends a signal to this process. Where the system cannot send it, raise ends the process, as
// the Go runtime does at a signal.
func raise(s os.Signal) {
	if p, err := os.FindProcess(os.Getpid()); err != nil || p.Signal(s) != nil {
		os.Exit(2)
	}
}
