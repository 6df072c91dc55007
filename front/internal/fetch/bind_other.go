//go:build !linux

package fetch

import (
	"net/netip"
	"syscall"
)

// bindLate is for Linux only.
func bindLate(netip.AddrPort) func(network, address string, c syscall.RawConn) error { return nil }
