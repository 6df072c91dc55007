//go:build unix

package upgrade

import (
	"os"
	"syscall"
)

func defaultSignals() []os.Signal { return []os.Signal{syscall.SIGUSR2} }

func stopSignals() []os.Signal {
	return []os.Signal{syscall.SIGTERM, syscall.SIGQUIT, os.Interrupt}
}

// supported returns nil: sockets can be passed to new processes.
func supported() error { return nil }
