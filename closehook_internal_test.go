package tare

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// A server may be shut down while its hook is attached, and the goroutine that attaches it may
// notice late. Shutdown does not wait for that hook.
func TestShutdownDoesNotWaitForAbandonedHook(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 30 { // awaitAttached selects one of two events at random
		inner := new(http.Server)
		h, ended, stopped := newCloseHook(engine.New(inner)), make(chan error, 1), make(chan error)
		served := make(chan error)
		go func() { served <- inner.Serve(hookListener{h}) }()
		<-h.responseBegun
		go func() { stopped <- inner.Shutdown(ctx) }()
		ended <- <-served
		if h.awaitAttached(ended) == nil {
			h.release() // as its owner does
		}
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
	}
}
