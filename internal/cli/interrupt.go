package cli

import "context"

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
