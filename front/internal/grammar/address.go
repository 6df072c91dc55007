package grammar

import (
	"net/netip"
	"strings"
)

// ParseAddress parses an IP address with an optional port, 0 without one: "::1", "[::1]:80",
// "127.0.0.1", "127.0.0.1:80".
func ParseAddress(text string) (netip.AddrPort, bool) {
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return netip.AddrPortFrom(addr, 0), true
	}
	addr, err := netip.ParseAddrPort(text)
	return addr, err == nil
}
