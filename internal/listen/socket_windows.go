package listen

import (
	"errors"
	"net"
	"os"
	"syscall"
)

func setReusePort(syscall.RawConn, bool) error { return errors.ErrUnsupported }

func setBacklog(syscall.RawConn, int) error { return errors.ErrUnsupported }

// Duplicate fails: sockets are not passed on Windows.
func Duplicate(net.Listener) (*os.File, error) { return nil, errors.ErrUnsupported }

// DuplicateConn fails likewise.
func DuplicateConn(syscall.Conn, string) (*os.File, error) { return nil, errors.ErrUnsupported }
