package testkit

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

// runTimeout limits how long a program that a test waits for may run, such as a build of the command
// from empty caches on a busy machine.
const runTimeout = 15 * time.Minute

var errTimeout = errors.New("the program timed out")

// Command returns a command that is killed and logged if it does not exit in time. It is for
// programs that a test runs and waits for; Start is for programs that run beside the test.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	Long(t, "it runs "+name)
	ctx, cancel := context.WithTimeoutCause(context.Background(), runTimeout, errTimeout)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = endTimeout
	ownGroup(c, 0)
	c.Cancel = func() error {
		if errors.Is(context.Cause(ctx), errTimeout) {
			t.Logf("%s did not exit within %v", name, runTimeout)
		}
		return killGroup(c.Process.Pid)
	}
	return c
}

// Succeeds runs a command, and ends the test with what it has printed if it fails.
func Succeeds(t testing.TB, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
}
