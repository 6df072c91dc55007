//go:build !unix

package upgrade

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

func defaultSignals() []os.Signal { return nil }

func stopSignals() []os.Signal { return []os.Signal{os.Interrupt} }

// supported returns an error: sockets cannot be passed to new processes.
func supported() error {
	return fmt.Errorf("passing sockets to a new process on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
