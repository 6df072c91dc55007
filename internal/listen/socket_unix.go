//go:build unix

package listen

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort is a net.ListenConfig.Control.
func reusePort(_, _ string, c syscall.RawConn) error {
	var setErr error
	err := c.Control(func(fd uintptr) {
		setErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err != nil {
		return err
	}
	return setErr
}

// setBacklog calls listen again, which changes only the backlog (listen(2)).
func setBacklog(l net.Listener, n int) error {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var listenErr error
	if err := raw.Control(func(fd uintptr) { listenErr = unix.Listen(int(fd), n) }); err != nil {
		return err
	}
	return listenErr
}
