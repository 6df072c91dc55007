//go:build !unix || aix

package netconn

import "net"

// discardReceived does nothing: package syscall has no read that never waits.
func discardReceived(net.Conn, []byte) {}
