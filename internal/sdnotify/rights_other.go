//go:build !unix

package sdnotify

import (
	"errors"
	"net"
	"os"
)

// sendWith fails: descriptors are not passed on this system.
func sendWith(*net.UnixConn, []byte, *os.File) error { return errors.ErrUnsupported }
