package interrupt

import (
	"context"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A second signal is not lost, even if it arrives before the first one has given signals their
// default action again, and also if the program ends the parent at the first one. Signals that
// follow one at once are the same.
func TestSecondSignalIsNotLost(t *testing.T) {
	for _, test := range []struct {
		name   string
		times  []time.Duration // when signals arrive
		early  int             // signals that arrive before the reset
		more   int             // contexts besides the last one
		parent bool            // the parent ends
		want   []string
	}{
		{name: "one", times: []time.Duration{0}, want: []string{"reset"}},
		{name: "repeated", times: []time.Duration{0, 0, repeatTime / 2}, want: []string{"reset"}},
		{name: "second before the reset", times: []time.Duration{0}, early: 1, want: []string{"reset", "terminated"}},
		{name: "parent", parent: true, want: []string{"reset"}},
		{name: "parent and two", times: []time.Duration{0}, early: 1, parent: true, want: []string{"reset", "terminated"}},
		{name: "two of three", times: []time.Duration{0, 0, 2 * repeatTime}, more: 1, want: []string{"reset"}},
		{name: "three", times: []time.Duration{0, 2 * repeatTime}, early: 1, more: 1, want: []string{"reset", "terminated"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, endParent := context.WithCancel(t.Context())
				defer endParent()
				c := make(chan os.Signal, 3)
				for _, at := range test.times {
					time.AfterFunc(at, func() { c <- syscall.SIGTERM })
				}
				if test.parent {
					endParent()
					synctest.Wait()
				}
				ctx, end := context.WithCancelCause(parent)
				ends := append(slices.Repeat([]context.CancelCauseFunc{func(error) {}}, test.more), end)
				var got []string
				receive(ctx, c, ends, make(chan struct{}), func() {
					got = append(got, "reset")
					for range test.early {
						c <- syscall.SIGTERM
					}
				}, func(s os.Signal) { got = append(got, s.String()) })
				if ctx.Err() == nil {
					t.Error("the context has not ended")
				}
				if cause := context.Cause(ctx); !test.parent && cause.Error() != "terminated signal received" {
					t.Errorf("the context's cause: %v", cause)
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("%v, want %v", got, test.want)
				}
			})
		})
	}
}

// A signal that is repeated after stop is the same one, too: it does not end the process.
func TestRepeatedSignalMayFollowStop(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot send itself signals")
	}
	ctx, stop := Context(t.Context(), syscall.SIGTERM)
	began := time.Now()
	raise(syscall.SIGTERM)
	<-ctx.Done()
	stop()
	if time.Since(began) < repeatTime/2 {
		raise(syscall.SIGTERM)
	}
}
