package listen

import (
	"errors"
	"syscall"
)

// What Windows says of an address that is in use, and of one where nobody listens; package syscall has neither.
const (
	wsaeAddrInUse   syscall.Errno = 10048
	wsaeConnRefused syscall.Errno = 10061
)

func isInUse(err error) bool   { return errors.Is(err, wsaeAddrInUse) }
func isRefused(err error) bool { return errors.Is(err, wsaeConnRefused) }

func closeOnExec(int) {} // no descriptors are passed
