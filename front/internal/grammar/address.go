package grammar

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
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

// SplitPort splits HOST:PORT or HOST, whose port is then defaultPort. Brackets stay with the host.
func SplitPort(addr, defaultPort string) (host, port string) {
	if i := strings.LastIndexByte(addr, ':'); i > strings.LastIndexByte(addr, ']') {
		return addr[:i], addr[i+1:]
	}
	return addr, defaultPort
}

// ParsePort parses the number of a port, which is not 0.
func ParsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("invalid port (1 to %d)", math.MaxUint16)
	}
	return uint16(n), nil
}

// QUICPrefix starts the addresses of UDP sockets: see conf.Listen.
const QUICPrefix = "quic:"

// IsQUIC reports whether a listening address is that of a UDP socket.
func IsQUIC(addr string) bool { return strings.HasPrefix(addr, QUICPrefix) }

// Wildcard returns the wildcard address with the port and the IP version of a listening address. If
// a configuration has both, the wildcard's socket also accepts connections to that address.
// Wildcard returns "" for a wildcard address, and for unix sockets.
func Wildcard(addr string) string {
	prefix, rest := "", addr
	if after, ok := strings.CutPrefix(addr, QUICPrefix); ok {
		prefix, rest = QUICPrefix, after
	}
	host, port := SplitPort(rest, "")
	if strings.HasPrefix(rest, "unix:") || port == "" {
		return ""
	}
	all := "*"
	if strings.HasPrefix(rest, "[") {
		all = "[::]"
	}
	if host == all {
		return ""
	}
	return prefix + all + ":" + port
}
