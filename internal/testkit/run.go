package testkit

import (
	"context"
	"testing"
)

// Run runs a server until the end of the test, and returns once it is ready. ended has the result,
// and is closed then.
func Run(t testing.TB, run func(context.Context) error, ready <-chan struct{}) (ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	ended = result
	go func() {
		result <- run(ctx)
		close(result)
	}()
	t.Cleanup(func() {
		cancel()
		for range ended { // until it has ended
		}
	})
	select {
	case <-ready:
	case err := <-result:
		t.Fatal(err)
	}
	return ended
}
