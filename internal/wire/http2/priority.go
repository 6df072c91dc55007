package http2

import "bytes"

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
		member, value, _ = bytes.Cut(value, []byte(","))
		member, _, _ = bytes.Cut(trimSpace(member), []byte(";"))
		key, item, _ := bytes.Cut(member, []byte("="))
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
