package testkit

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup starts the command in its own process group. If death is not 0, the command receives
// that signal when the thread that started it ends.
func ownGroup(c *exec.Cmd, death syscall.Signal) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = new(syscall.SysProcAttr)
	}
	c.SysProcAttr.Setpgid, c.SysProcAttr.Pdeathsig = true, death
}

func killGroup(pid int) error { return unix.Kill(-pid, unix.SIGKILL) }

// endGroup waits until the leader of a group has exited and kills the rest. The leader stays a
// zombie meanwhile, so no other group can reuse its ID.
func endGroup(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = killGroup(pid)
}
