//go:build unix

package listen

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func controlReusePort(c syscall.RawConn, on bool) error {
	value := 0
	if on {
		value = 1
	}
	var setErr error
	err := c.Control(func(fd uintptr) {
		setErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, value)
	})
	if err != nil {
		return err
	}
	return setErr
}

func setReusePort(l *net.TCPListener, on bool) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return controlReusePort(raw, on)
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

// Duplicate returns a second descriptor of a listening socket. Unlike the File methods of package
// net it does not make the socket blocking, which would affect all of its descriptors: calls of
// Accept and Close in other goroutines and processes would block.
func Duplicate(l net.Listener) (*os.File, error) {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%s: %T is not a socket", l.Addr(), l)
	}
	return DuplicateConn(socket, l.Addr().String())
}

// DuplicateConn is Duplicate for any socket. The name is that of the file.
func DuplicateConn(socket syscall.Conn, name string) (*os.File, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	duplicate := -1
	var dupErr error
	err = raw.Control(func(fd uintptr) { duplicate, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, os.NewSyscallError("fcntl", dupErr)
	}
	return os.NewFile(uintptr(duplicate), name), nil
}
