package testkit

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup gives a command a process group, and, if death is not 0, a signal that it receives when
// the thread ends that started it.
func ownGroup(c *exec.Cmd, death syscall.Signal) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = new(syscall.SysProcAttr)
	}
	c.SysProcAttr.Setpgid, c.SysProcAttr.Pdeathsig = true, death
}

// killGroup kills a process group.
func killGroup(pid int) error { return unix.Kill(-pid, unix.SIGKILL) }

// endGroup waits until the leader of a group has ended and kills the rest. The leader stays a
// zombie meanwhile, so that no other group has its number.
func endGroup(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = killGroup(pid)
}
