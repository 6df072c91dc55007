package netconn

import "syscall"

// AckNow acknowledges what a TCP connection has received. It is called after a TLS handshake whose
// last message is the client's, to which nothing is sent. A client that uses Nagle's algorithm, as
// it does by default, holds its first request back until that message is acknowledged, and the
// kernel would delay this by 40 ms.
func AckNow(fd uintptr) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
}
