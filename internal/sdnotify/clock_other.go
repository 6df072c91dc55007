//go:build !linux

package sdnotify

// monotonicUs returns 0: systemd needs Linux.
func monotonicUs() int64 { return 0 }
