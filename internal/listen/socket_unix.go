//go:build unix

package listen

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// control calls f with the descriptor of a socket.
func control(raw syscall.RawConn, f func(fd int) error) error {
	var failed error
	err := raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

func setReusePort(raw syscall.RawConn, on bool) error {
	value := 0
	if on {
		value = 1
	}
	return control(raw, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, value)
	})
}

// setBacklog calls listen again, which changes only the backlog (listen(2)).
func setBacklog(raw syscall.RawConn, n int) error {
	return control(raw, func(fd int) error { return unix.Listen(fd, n) })
}

// Duplicate returns a second descriptor of a socket or file, as a file with a name. Unlike the File
// methods of package net it does not make the socket blocking, which would affect all of its
// descriptors: calls of Accept and Close in other goroutines and processes would block.
func Duplicate(of any, name string) (*os.File, error) {
	conn, ok := of.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%s: %T is not a socket", name, of)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	duplicate := -1
	err = control(raw, func(fd int) (err error) {
		duplicate, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return os.NewSyscallError("fcntl", err)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(duplicate), name), nil
}
