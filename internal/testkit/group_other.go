//go:build !linux

package testkit

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup does nothing: tests that start process groups run on Linux only.
func ownGroup(*exec.Cmd, syscall.Signal) {}

func killGroup(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// endGroup does nothing: there is no group.
func endGroup(int) {}
