package fetch

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// bindLate leaves the choice of the local port to connect(2), which then may use a port again for
// another server. Otherwise bind(2) would choose, and 28,000 connections use up all ports. It is
// for net.Dialer.Control; nil if the port is fixed.
func bindLate(local netip.AddrPort) func(network, address string, c syscall.RawConn) error {
	if local.Port() != 0 {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			// without it, connections work all the same
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		})
	}
}
