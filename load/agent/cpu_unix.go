//go:build unix

package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns the CPU time of this process, or 0 if it is unknown.
func processTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
