package load

import (
	"time"

	"golang.org/x/sys/unix"
)

type cpuTime struct{ user, sys time.Duration }

func threadTime() cpuTime {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return cpuTime{}
	}
	return cpuTime{time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())}
}

// bindThread binds the calling thread to one CPU; undo restores its previous affinity. The
// goroutine must be locked to its thread.
func bindThread(cpu int) (undo func() error, err error) {
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return nil, err
	}
	return func() error { return unix.SchedSetaffinity(0, &before) }, nil
}
