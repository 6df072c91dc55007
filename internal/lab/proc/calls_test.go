package proc

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestCallsAreCounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("counting system calls requires root")
	}
	c, err := CountCalls()
	if errors.Is(err, os.ErrPermission) {
		t.Skip(err) // containers and locked-down kernels do not allow it
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	self := os.Getpid()
	before, err := c.Counts()
	if err != nil {
		t.Fatal(err)
	}
	const made = 1000
	for range made {
		_ = syscall.Getppid()
	}
	after, err := c.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if n := after[self][syscall.SYS_GETPPID] - before[self][syscall.SYS_GETPPID]; n != made {
		t.Errorf("%d calls of getppid were counted of %d", n, made)
	}
}
