package testkit

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// runsWithin is how long a program may run that a test waits for. What takes longer hangs.
const runTimeout = 5 * time.Minute

var errTimeout = errors.New("the program runs for too long")

// Command returns a command that is killed, and reported, if it does not end in time. It is for
// programs that a test runs and waits for. Start is for those that run beside it.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeoutCause(context.Background(), runTimeout, errTimeout)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = endTimeout
	ownGroup(c, 0)
	c.Cancel = func() error {
		if errors.Is(context.Cause(ctx), errTimeout) {
			t.Logf("%s has not ended after %v", name, runTimeout)
		}
		return killGroup(c.Process.Pid)
	}
	return c
}
