//go:build unix

package fleet

import (
	"os/exec"
	"syscall"
)

// separate makes a command a process group of its own, so that an interrupt from the terminal does
// not reach it: it has to deliver its result first.
func separate(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
