package listen

import (
	"errors"
	"os"
	"syscall"
)

func setReusePort(syscall.RawConn, bool) error { return errors.ErrUnsupported }

func setBacklog(syscall.RawConn, int) error { return errors.ErrUnsupported }

// Duplicate fails: sockets are not passed on Windows.
func Duplicate(any, string) (*os.File, error) { return nil, errors.ErrUnsupported }
