package sdnotify

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonicUs returns the time of CLOCK_MONOTONIC, in microseconds.
func monotonicUs() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano() / int64(time.Microsecond)
}
