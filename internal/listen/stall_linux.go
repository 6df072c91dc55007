package listen

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitStalls sets TCP_USER_TIMEOUT (tcp(7)), which accepted connections inherit. Unlike a deadline
// it costs nothing for each request, and it requires progress, not completion.
func limitStalls(l *net.TCPListener, d time.Duration) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var setErr error
	err = raw.Control(func(fd uintptr) {
		setErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil || errors.Is(setErr, unix.ENOPROTOOPT) {
		return err // a passed Multipath TCP socket lacks the option
	}
	return setErr
}
