package listen

import (
	"errors"
	"net"
	"syscall"
)

func reusePort(string, string, syscall.RawConn) error { return errors.ErrUnsupported }

func setBacklog(net.Listener, int) error { return errors.ErrUnsupported }
