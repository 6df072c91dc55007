package http1

import (
	"encoding/binary"
	"math/bits"
)

// Lines that have arrived whole and are written as most are written are parsed in one pass.
// Any other is left for the slow path, which looks at it from the start and decides: so what
// is here has to be right about the lines that it takes, and about nothing else. A line that
// was looked at before is not tried again, so that a head that trickles in costs no more.

// plainFields parses field lines as long as they are plain.
func (h *Head) plainFields(b []byte, limits Limits) error {
	b = b[:min(len(b), limits.Bytes)]
	for h.seen == h.next && len(h.Fields) < limits.Fields {
		start := h.next
		n := start + span(b[start:], tokenByte)
		if n == start || n == len(b) || b[n] != ':' {
			return nil
		}
		v := n + 1
		if v < len(b) && b[v] == ' ' {
			v++
		}
		end := plainRun(b, v, ' ')
		if !endsAt(b, end) || b[end-1] == ' ' || b[v] == ' ' {
			return nil
		}
		h.next, h.seen = end+2, end+2
		if err := h.add(b, start, n, v, end); err != nil {
			return err
		}
	}
	return nil
}

// plainRequestLine parses a request line if it is plain.
func (r *Request) plainRequestLine(b []byte, limits Limits) bool {
	const version = " HTTP/1.1"
	b = b[:min(len(b), limits.Bytes)]
	if r.seen != r.next {
		return false
	}
	start := r.next
	m := start + span(b[start:], tokenByte)
	if m == start || m == len(b) || b[m] != ' ' {
		return false
	}
	t := plainRun(b, m+1, '!')
	end := t + len(version)
	if t == m+1 || !endsAt(b, end) || string(b[t:end]) != version {
		return false
	}
	r.Method, r.Target, r.Minor = spanOf(start, m), spanOf(m+1, t), 1
	r.next, r.seen = end+2, end+2
	return true
}

// endsAt reports whether b has CRLF at an offset.
func endsAt(b []byte, i int) bool { return i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n' }

// plainRun returns where, from an offset on, the first byte is that is under least or is 0x7f,
// or the length of b. It looks at eight bytes at a time. What it computes marks that byte
// rightly; a byte above it may be marked wrongly, by a carry.
func plainRun(b []byte, i int, least byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	under := uint64(least) * ones
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		del := w ^ ones*0x7f
		if m := ((w-under)&^w | (del-ones)&^del) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b) && b[i] >= least && b[i] != 0x7f; i++ {
	}
	return i
}
