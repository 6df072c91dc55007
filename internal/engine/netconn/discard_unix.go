//go:build unix && !aix

package netconn

import (
	"net"
	"syscall"
)

// maxDiscards limits how often discardReceived reads.
const maxDiscards = 64

// discardReceived reads and discards what nc has received, without waiting.
func discardReceived(nc net.Conn, buffer []byte) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for range maxDiscards {
			n, _, err := syscall.Recvfrom(int(fd), buffer, syscall.MSG_DONTWAIT)
			if n < len(buffer) || err != nil {
				return
			}
		}
	})
}
