package fcgi

import (
	"encoding/binary"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Pair is where a name and its value lie.
type Pair struct{ Name, Value http1.Span }

// NextPair reads the name and the value that begin at an offset of b, and returns the
// offset of the next (section 3.4). b holds the whole list.
func NextPair(b []byte, at int) (p Pair, next int, err error) {
	name, n := length(b, at)
	if n == 0 {
		return Pair{}, at, fault(at, "name's length cut off")
	}
	value, m := length(b, at+n)
	if m == 0 {
		return Pair{}, at, fault(at, "value's length cut off")
	}
	start := at + n + m
	if name > len(b)-start || value > len(b)-start-name {
		return Pair{}, at, fault(at, "parameter longer than its list")
	}
	mid, end := start+name, start+name+value
	return Pair{span(start, mid), span(mid, end)}, end, nil
}

func span(start, end int) http1.Span { return http1.Span{Start: uint32(start), End: uint32(end)} }

// length reads a length of one byte, or of four if the first bit is set, and returns how
// many bytes it has; none if it is cut off.
func length(b []byte, at int) (v, n int) {
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
