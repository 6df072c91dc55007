package fcgi

import (
	"encoding/binary"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Pair holds the offsets of a name and of its value.
type Pair struct{ Name, Value http1.Span }

// NextPair parses the name and the value at an offset of b, and returns the offset of the next pair
// (section 3.4). b contains the whole list.
func NextPair(b []byte, at int) (p Pair, next int, err error) {
	name, n := parseLength(b, at)
	if n == 0 {
		return Pair{}, at, fault(at, "truncated name length")
	}
	value, m := parseLength(b, at+n)
	if m == 0 {
		return Pair{}, at, fault(at, "truncated value length")
	}
	start := at + n + m
	if name > len(b)-start || value > len(b)-start-name {
		return Pair{}, at, fault(at, "parameter exceeds its list")
	}
	mid, end := start+name, start+name+value
	return Pair{http1.SpanOf(start, mid), http1.SpanOf(mid, end)}, end, nil
}

// parseLength parses a length of one byte, or of four if the first bit is set. n is the number of
// its bytes, 0 if it is truncated.
func parseLength(b []byte, at int) (v, n int) {
	switch {
	case at >= len(b):
		return 0, 0
	case b[at] < 0x80:
		return int(b[at]), 1
	case len(b)-at < 4:
		return 0, 0
	}
	return int(binary.BigEndian.Uint32(b[at:]) &^ (1 << 31)), 4
}
