package http1

// class is a set of the grammar's character classes, as bits.
type class uint8

const (
	tokenByte      class = 1 << iota // tchar, RFC 9110 5.6.2
	lowerTokenByte                   // tchar except for upper-case letters
	targetByte                       // allowed in a request target: no control byte, no space
	valueByte                        // field-vchar, space and tab, RFC 9110 5.5
	hostByte                         // reg-name without the comma, RFC 3986 3.2.2
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
		lower  = digits + "abcdefghijklmnopqrstuvwxyz"
		alnum  = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		marks  = "!#$%&'*+-.^_`|~"
	)
	add(tokenByte, alnum+marks)
	add(lowerTokenByte, lower+marks)
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

// ValueSpan returns how many leading bytes of b may be part of a field value (RFC 9110, 5.5): those
// of plainRun, and tabs.
func ValueSpan(b []byte) int {
	for i := 0; ; i++ {
		if i = plainRun(b, i, ' '); i == len(b) || b[i] != '\t' {
			return i
		}
	}
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
