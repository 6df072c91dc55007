package http1

import "encoding/binary"

// class is a set of the grammar's character classes, as bits.
type class uint8

const (
	tokenByte  class = 1 << iota // tchar, RFC 9110 5.6.2
	targetByte                   // allowed in a request target: no control byte, no space
	valueByte                    // field-vchar, space and tab, RFC 9110 5.5
	hostByte                     // reg-name without the comma, RFC 3986 3.2.2
	digitByte
	hexByte
)

// classes is never modified. hostByte excludes the comma although RFC 3986 allows it: recipients
// that split fields at commas would see two hosts.
var classes = makeClasses()

func makeClasses() (t [256]class) {
	add := func(c class, set string) {
		for i := range len(set) {
			t[set[i]] |= c
		}
	}
	const (
		digits = "0123456789"
		hexes  = digits + "abcdefABCDEF"
		alnum  = digits + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	)
	add(tokenByte, alnum+"!#$%&'*+-.^_`|~")
	add(hostByte, alnum+"-._~%!$&'()*+;=")
	add(digitByte, digits)
	add(hexByte, hexes)
	for c := 0x21; c < 0x100; c++ {
		if c != 0x7f {
			t[c] |= targetByte | valueByte
		}
	}
	add(valueByte, " \t")
	return t
}

// span returns how many leading bytes of b belong to class c.
func span(b []byte, c class) int {
	for i, x := range b {
		if classes[x]&c == 0 {
			return i
		}
	}
	return len(b)
}

// ValueSpan returns how many leading bytes of b may be part of a field value (RFC 9110, 5.5). It is
// span(b, valueByte), eight bytes at a time, because values are most of a head. A word
// that may contain a byte under 0x20 or a 0x7f goes to the slow loop, which decides; a false alarm
// costs only that. It checks the values of a browser's head in 160 ns, the loop alone in 258
// (BenchmarkValueSpan).
func ValueSpan(b []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		low := (w - ones*0x20) & ^w // high bit set where a byte is under 0x20
		del := w ^ ones*0x7f        // a zero byte where w holds 0x7f
		if (low|((del-ones)&^del))&highs != 0 {
			if n := span(b[i:i+8], valueByte); n < 8 {
				return i + n
			}
		}
	}
	return i + span(b[i:], valueByte)
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// EqualFold reports whether b equals s, ignoring ASCII case.
func EqualFold[T string | []byte](b T, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range len(s) {
		if b[i] != s[i] && lower(b[i]) != lower(s[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}

func trimSpace(b []byte, start, end int) (int, int) {
	for start < end && (b[start] == ' ' || b[start] == '\t') {
		start++
	}
	for start < end && (b[end-1] == ' ' || b[end-1] == '\t') {
		end--
	}
	return start, end
}
