package contender

import (
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// restOfOutput is the timeout of a command's output after the command has ended. Only processes
// that left the command's group can still write.
const restOfOutput = 5 * time.Second

// RunGroup runs a command in a process group of its own, and ends the group with the command: no
// child continues in the background. When the command's context ends, all of them are killed.
func RunGroup(c *exec.Cmd) error {
	if c.SysProcAttr == nil {
		c.SysProcAttr = new(syscall.SysProcAttr)
	}
	c.SysProcAttr.Setpgid = true
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = restOfOutput
	if err := c.Start(); err != nil {
		return err
	}
	// The command stays a zombie until Wait, so no other group has its ID.
	for errors.Is(unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	return c.Wait()
}
