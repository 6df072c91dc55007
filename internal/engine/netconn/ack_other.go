//go:build !linux

package netconn

import "syscall"

// AckNow does nothing: other systems have no such call.
func AckNow(syscall.RawConn) {}
