package pcre

import "unicode"

type set [4]uint64

func (s *set) has(c byte) bool { return s[c>>6]>>(c&63)&1 == 1 }

func (s *set) add(c byte) { s[c>>6] |= 1 << (c & 63) }

func (s *set) addRange(from, to byte) {
	for c := int(from); c <= int(to); c++ {
		s.add(byte(c))
	}
}

func (s *set) addSet(o set) {
	for i := range s {
		s[i] |= o[i]
	}
}

func (s set) not() set {
	for i := range s {
		s[i] = ^s[i]
	}
	return s
}

// notIf is not if a condition is true.
func (s set) notIf(not bool) set {
	if not {
		return s.not()
	}
	return s
}

// folded adds the other case of each ASCII letter.
func (s set) folded() set {
	for c := byte('a'); c <= 'z'; c++ {
		if upper := c - 'a' + 'A'; s.has(c) || s.has(upper) {
			s.add(c)
			s.add(upper)
		}
	}
	return s
}

func setOf(bytes string) (s set) {
	for i := range len(bytes) {
		s.add(bytes[i])
	}
	return s
}

func setWhere(f func(c byte) bool) (s set) {
	for c := range 256 {
		if f(byte(c)) {
			s.add(byte(c))
		}
	}
	return s
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isWord(c byte) bool   { return isDigit(c) || isLetter(c) || c == '_' }
func isSpace(c byte) bool  { return c == ' ' || c >= '\t' && c <= '\r' }

// classEscape returns the set of an escape such as \d, by its letter.
func classEscape(c byte) (s set, ok bool) {
	switch c | 0x20 {
	case 'd':
		s = setWhere(isDigit)
	case 'w':
		s = setWhere(isWord)
	case 's':
		s = setWhere(isSpace)
	case 'h':
		s = setOf("\t \xa0")
	case 'v':
		s = setOf("\n\v\f\r\x85")
	default:
		return s, false
	}
	return s.notIf(c < 'a'), true
}

// posixClass returns the set of a class such as [:alpha:], by its name.
func posixClass(name string) (set, bool) {
	in := map[string]func(c byte) bool{
		"alpha": isLetter, "digit": isDigit, "space": isSpace, "word": isWord,
		"lower":  func(c byte) bool { return c >= 'a' && c <= 'z' },
		"upper":  func(c byte) bool { return c >= 'A' && c <= 'Z' },
		"alnum":  func(c byte) bool { return isLetter(c) || isDigit(c) },
		"ascii":  func(c byte) bool { return c < 0x80 },
		"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
		"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
		"graph":  func(c byte) bool { return c > ' ' && c < 0x7f },
		"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
		"punct":  func(c byte) bool { return c > ' ' && c < 0x7f && !isLetter(c) && !isDigit(c) },
		"xdigit": func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' },
	}[name]
	if in == nil {
		return set{}, false
	}
	return setWhere(in), true
}

// property returns the set of a property such as \p{Lu}, which must be a general category. Bytes are
// the code points with the same number.
func property(name string) (s set, ok bool) {
	table := unicode.Categories[name]
	if table == nil {
		return s, false
	}
	return setWhere(func(c byte) bool { return unicode.Is(table, rune(c)) }), true
}
