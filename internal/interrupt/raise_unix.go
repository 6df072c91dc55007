//go:build unix

package interrupt

import (
	"os"
	"syscall"
)

// raise sends a signal to this process.
func raise(s os.Signal) { _ = syscall.Kill(syscall.Getpid(), s.(syscall.Signal)) }
