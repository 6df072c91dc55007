package listen

import (
	"errors"
	"syscall"
)

// Windows' errors for an address in use and for a refused connection, which package syscall lacks.
const (
	wsaeAddrInUse   syscall.Errno = 10048
	wsaeConnRefused syscall.Errno = 10061
)

func isInUse(err error) bool   { return errors.Is(err, wsaeAddrInUse) }
func isRefused(err error) bool { return errors.Is(err, wsaeConnRefused) }

func closeOnExec(int) {} // sockets are not passed on Windows
