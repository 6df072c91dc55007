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

// QUICPrefix starts the addresses of UDP sockets: see conf.Listen.
const QUICPrefix = "quic:"

// IsQUIC reports whether a listening address is that of a UDP socket.
func IsQUIC(addr string) bool { return strings.HasPrefix(addr, QUICPrefix) }

// Wildcard returns the address of all addresses with the port and the IP version of a listening
// address. If a configuration has both, the socket of all of them also accepts connections to this
// one. It is empty for such an address itself, and for unix sockets.
func Wildcard(addr string) string {
	prefix, rest := "", addr
	if after, ok := strings.CutPrefix(addr, QUICPrefix); ok {
		prefix, rest = QUICPrefix, after
	}
	end := strings.LastIndexByte(rest, ':')
	if strings.HasPrefix(rest, "unix:") || end < 0 {
		return ""
	}
	all := "*"
	if strings.HasPrefix(rest, "[") {
		all = "[::]"
	}
	if rest[:end] == all {
		return ""
	}
	return prefix + all + rest[end:]
}
