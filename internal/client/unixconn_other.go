//go:build !linux

package client

import "net"

// inputOnly returns nc: see the version for Linux.
func inputOnly(nc *net.UnixConn) net.Conn { return nc }
