// Package hostname normalizes the names of hosts, and finds values by them.
package hostname

import "strings"

// Parse returns the normalized name of a Host field: without port and trailing dot, in lower
// case. It returns false for an invalid name.
func Parse(s string) (name string, ok bool) {
	end, upper := 0, false
	if s != "" && s[0] == '[' {
		if end = strings.IndexByte(s, ']') + 1; end == 0 {
			return "", false
		}
		for i := range end {
			if s[i] != ':' && !inHostName(s[i]) {
				return "", false
			}
		}
		upper = true // it may have upper-case letters
	} else {
		for end < len(s) && inHostName(s[end]) && (s[end] != '.' || end == 0 || s[end-1] != '.') {
			upper = upper || s[end]-'A' <= 'Z'-'A'
			end++
		}
	}
	if !isPort(s[end:]) {
		return "", false
	}
	if name = strings.TrimSuffix(s[:end], "."); upper {
		name = LowerASCII(name)
	}
	return name, name != "" || end == 0 // a single dot is not a name
}

// inHostName reports whether a byte is allowed in a host's name.
func inHostName(c byte) bool {
	const ( // one bit for each allowed byte from ! to ?, and from @ to ~
		low  uint64 = 1<<'@' - 1<<'!' - 1<<'"' - 1<<'#' - 1<<',' - 1<<'/' - 1<<':' - 1<<'<' - 1<<'>' - 1<<'?'
		high uint64 = 1<<('\x7f'-'@') - 1 - 1 - 1<<('\\'-'@')
	)
	return c >= 0x80 || c < '@' && low>>c&1 == 1 || c >= '@' && high>>(c-'@')&1 == 1
}

// isPort reports whether s is empty, or a colon and digits.
func isPort(s string) bool {
	for i := range len(s) {
		if c := s[i]; i == 0 && c != ':' || i > 0 && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// LowerASCII lowers ASCII letters only: the encoding of others is unknown, and some, such as the
// Kelvin sign, are ASCII letters in lower case.
func LowerASCII(s string) string {
	isUpper := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	i := 0
	for i < len(s) && !isUpper(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	b := []byte(s)
	for ; i < len(b); i++ {
		if isUpper(b[i]) {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}
