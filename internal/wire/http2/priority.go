package http2

// Priority of a response (RFC 9218, 4).
const (
	DefaultUrgency = 3
	leastUrgency   = 7
)

// ParsePriority returns the parameters of a Priority field or of a PRIORITY_UPDATE frame. What is
// absent or malformed has its default.
//
// It is not a complete parser of structured fields (RFC 8941): it reads a dictionary without
// strings, which is all that RFC 9218 defines. Parameters of members are skipped.
func ParsePriority(value []byte) (urgency uint8, incremental bool) {
	urgency = DefaultUrgency
	for len(value) > 0 {
		var member []byte
		member, value = cutByte(value, ',')
		member, _ = cutByte(trimSpace(member), ';')
		key, item := cutByte(member, '=')
		switch {
		case string(key) == "u" && len(item) == 1 && item[0]-'0' <= leastUrgency:
			urgency = item[0] - '0'
		case string(key) == "i" && len(member) == 1:
			incremental = true
		case string(key) == "i" && len(item) == 2 && item[0] == '?':
			incremental = item[1] == '1'
		}
	}
	return urgency, incremental
}

// cutByte returns what precedes and what follows the first sep, or b and nothing.
func cutByte(b []byte, sep byte) (before, after []byte) {
	for i, c := range b {
		if c == sep {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// trimSpace removes spaces and tabs around b.
func trimSpace[T string | []byte](b T) T {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
