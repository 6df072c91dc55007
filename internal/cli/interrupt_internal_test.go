package cli

import (
	"context"
	"os"
	"slices"
	"syscall"
	"testing"
)

// A second signal is not lost, even if it arrives before the first one has given signals their
// default action again.
func TestSecondSignalIsNotLost(t *testing.T) {
	for _, early := range []bool{true, false} {
		c := make(chan os.Signal, 2)
		ctx, cancel := context.WithCancelCause(t.Context())
		var got []string
		c <- os.Interrupt
		endByTwo(c, cancel, func() {
			got = append(got, "reset")
			if early {
				c <- syscall.SIGTERM
			}
		}, func(s os.Signal) { got = append(got, s.String()) })
		if cause := context.Cause(ctx); cause == nil || cause.Error() != "interrupt signal received" {
			t.Errorf("the context's cause: %v", cause)
		}
		want := []string{"reset", "terminated"}
		if !early {
			want = want[:1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
