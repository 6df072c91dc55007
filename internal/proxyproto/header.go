package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// Header holds the addresses of the client's connection as reported by a proxy. Both are invalid if
// it reports none.
type Header struct{ Source, Destination netip.AddrPort }

const (
	maxLine   = 107     // of version 1, including CRLF
	maxHeader = 4 << 10 // of version 2, including the TLVs after the addresses
	fixedSize = 16      // of version 2, before the addresses
)

// signature is the start of a version 2 header.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

var (
	errBroken  = errors.New("malformed PROXY protocol header")
	errVersion = errors.New("PROXY protocol header of an unknown version")
	errTooLong = errors.New("PROXY protocol header too long")
)

// parse parses the header at the start of b. size is 0 if the header is incomplete.
func parse(b []byte) (h Header, size int, err error) {
	if n := min(len(b), len(signature)); string(b[:n]) == signature[:n] {
		return parseBinary(b)
	}
	const prefix = "PROXY "
	if n := min(len(b), len(prefix)); string(b[:n]) != prefix[:n] {
		return h, 0, errBroken
	}
	end := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	switch {
	case end < 0 && len(b) >= maxLine:
		return h, 0, errTooLong
	case end < 0:
		return h, 0, nil
	case b[end-1] != '\r':
		return h, 0, errBroken
	}
	h, err = parseLine(string(b[len(prefix) : end-1]))
	return h, end + 1, err
}

// parseLine parses the rest of a version 1 header after "PROXY ".
func parseLine(s string) (h Header, err error) {
	if strings.HasPrefix(s, "UNKNOWN") {
		return h, nil
	}
	words := strings.Split(s, " ")
	if len(words) != 5 || words[0] != "TCP4" && words[0] != "TCP6" {
		return h, errBroken
	}
	source, ok1 := lineAddr(words[1], words[3], words[0] == "TCP6")
	destination, ok2 := lineAddr(words[2], words[4], words[0] == "TCP6")
	if !ok1 || !ok2 {
		return h, errBroken
	}
	return Header{source, destination}, nil
}

// lineAddr parses an address and its port.
func lineAddr(host, port string, six bool) (netip.AddrPort, bool) {
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Is6() != six || addr.Zone() != "" {
		return netip.AddrPort{}, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), err == nil
}

// parseBinary parses a version 2 header. As in nginx, only a proxied TCP connection has addresses.
// Health checks of the proxy itself (LOCAL), datagrams, unix sockets and unknown families have
// none.
func parseBinary(b []byte) (h Header, size int, err error) {
	if len(b) < fixedSize {
		return h, 0, nil
	}
	command, family := b[len(signature)], b[len(signature)+1]
	size = fixedSize + int(binary.BigEndian.Uint16(b[fixedSize-2:]))
	switch {
	case command>>4 != 2:
		return h, 0, errVersion
	case size > maxHeader:
		return h, 0, errTooLong
	case len(b) < size:
		return h, 0, nil
	}
	const proxied, inet, inet6 = 1, 0x11, 0x21
	n := 0
	switch {
	case command&0xf != proxied:
	case family == inet:
		n = 4
	case family == inet6:
		n = 16
	}
	addrs := b[fixedSize:size]
	if len(addrs) < 2*n+4 && n > 0 {
		return h, 0, errBroken
	}
	if n > 0 {
		h = Header{binaryAddr(addrs[:n], addrs[2*n:]), binaryAddr(addrs[n:2*n], addrs[2*n+2:])}
	}
	return h, size, nil
}

func binaryAddr(ip, port []byte) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(port))
}
