//go:build unix

package listen

import (
	"errors"
	"syscall"
)

func isInUse(err error) bool   { return errors.Is(err, syscall.EADDRINUSE) }
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

func closeOnExec(fd int) { syscall.CloseOnExec(fd) }
