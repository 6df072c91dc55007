package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// notifyContext returns a context that the first of some signals ends. The second ends the process.
func notifyContext(signals ...os.Signal) context.Context {
	c := make(chan os.Signal, 2)
	signal.Notify(c, signals...)
	ctx, cancel := context.WithCancelCause(context.Background())
	go endByTwo(c, cancel, func() { signal.Stop(c) }, func(s os.Signal) {
		_ = syscall.Kill(syscall.Getpid(), s.(syscall.Signal))
	})
	return ctx
}

// endByTwo ends a context at the first signal and gives signals their default action again. A
// second one may have arrived meanwhile: it is raised again.
func endByTwo(c <-chan os.Signal, end context.CancelCauseFunc, reset func(), raise func(os.Signal)) {
	end(fmt.Errorf("%v signal received", <-c))
	reset()
	select {
	case again := <-c:
		raise(again)
	default:
	}
}

// interruptible returns the error of f, or the cause of ctx as soon as that ends: f may open a
// named pipe, which waits for another program. f then goes on until the process ends.
func interruptible(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &exitError{exitStop, context.Cause(ctx)}
	}
}
