package interrupt

import (
	"context"
	"os"
	"slices"
	"syscall"
	"testing"
)

// A second signal is not lost, even if it arrives before the first one has given signals their
// default action again, and also if the program ends the parent at the first one.
func TestSecondSignalIsNotLost(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, early int  // signals that arrive before the context ends, and before the reset
		more          int  // contexts besides the last one
		parent        bool // the parent ends
		want          []string
	}{
		{name: "one", before: 1, want: []string{"reset"}},
		{name: "two", before: 2, want: []string{"reset", "terminated"}},
		{name: "second before the reset", before: 1, early: 1, want: []string{"reset", "terminated"}},
		{name: "parent", parent: true, want: []string{"reset"}},
		{name: "parent and one", before: 1, parent: true, want: []string{"reset"}},
		{name: "parent and two", before: 1, early: 1, parent: true, want: []string{"reset", "terminated"}},
		{name: "two of three", before: 2, more: 1, want: []string{"reset"}},
		{name: "three", before: 2, early: 1, more: 1, want: []string{"reset", "terminated"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			parent, endParent := context.WithCancel(t.Context())
			defer endParent()
			if test.parent {
				endParent()
			}
			c := make(chan os.Signal, 3)
			for range test.before {
				c <- syscall.SIGTERM
			}
			ctx, end := context.WithCancelCause(parent)
			ends := append(slices.Repeat([]context.CancelCauseFunc{func(error) {}}, test.more), end)
			var got []string
			receive(ctx, c, ends, func() {
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
	}
}
