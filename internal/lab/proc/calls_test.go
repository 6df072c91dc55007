package proc

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestCallsAreCounted(t *testing.T) {
	testkit.NeedRoot(t)
	c, err := CountCalls()
	if errors.Is(err, os.ErrPermission) {
		t.Skip(err) // containers and locked-down kernels do not allow it
	}
	testkit.Must(t, err)
	defer c.Close()
	self := os.Getpid()
	before := testkit.Value(c.Counts())(t)
	const made = 1000
	for range made {
		_ = syscall.Getppid()
	}
	after := testkit.Value(c.Counts())(t)
	testkit.Equal(t, after[self][syscall.SYS_GETPPID]-before[self][syscall.SYS_GETPPID], made, "calls of getppid")
}
