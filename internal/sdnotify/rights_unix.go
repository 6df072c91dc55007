//go:build unix

package sdnotify

import (
	"net"
	"os"
	"syscall"
)

// sendWith sends a message and a copy of a descriptor (unix(7)). Package net does not send
// descriptors on connected datagram sockets.
func sendWith(c *net.UnixConn, message []byte, f *os.File) error {
	file, err := f.SyscallConn()
	if err != nil {
		return err
	}
	socket, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr, fileErr error
	err = socket.Write(func(to uintptr) bool {
		fileErr = file.Control(func(fd uintptr) {
			sendErr = syscall.Sendmsg(int(to), message, syscall.UnixRights(int(fd)), nil, 0)
		})
		return sendErr != syscall.EAGAIN // a bare errno
	})
	if err == nil {
		err = fileErr
	}
	if err == nil && sendErr != nil {
		err = os.NewSyscallError("sendmsg", sendErr)
	}
	return err
}
