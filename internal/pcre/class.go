package pcre

import (
	"errors"
	"fmt"
	"strings"
)

var errClass = errors.New("missing \"]\"")

// class parses a character class after its bracket.
func (p *parser) class() (s set, err error) {
	p.at--
	if _, ok, err := p.posix(); ok || err != nil {
		return s, errors.New("a class such as [:alpha:] is only allowed inside brackets")
	}
	p.at++
	not := p.accept("^")
	last, ranging := -1, false // the possible start of a range; whether a minus follows it
	for first := true; ; first = false {
		if p.accept(`\E`) {
			continue
		}
		if p.at == len(p.text) {
			return s, errClass
		}
		if p.text[p.at] == ']' && !first {
			p.at++
			break
		}
		one, b, err := p.classItem()
		if err != nil {
			return s, err
		}
		switch {
		case ranging && b < 0:
			return s, errors.New("range in a class does not end with a character")
		case ranging:
			if b < last {
				return s, fmt.Errorf("range %q in a class is out of order", []byte{byte(last), '-', byte(b)})
			}
			one.addRange(byte(last), byte(b))
			s.addSet(p.folded(one))
			last, ranging = -1, false
		case b >= 0:
			s.addSet(p.folded(one))
			last = b
		default:
			s.addSet(one)
			last = -1
		}
		if !strings.HasPrefix(p.rest(), "-") || strings.HasPrefix(p.rest(), "-]") || p.at+1 == len(p.text) {
			continue
		}
		if last >= 0 {
			ranging = true
			p.at++
		} else if b < 0 {
			return s, errors.New("range in a class does not begin with a character")
		}
	}
	return s.notIf(not), nil
}

// folded adds the other case of the characters, with (?i). Properties are not folded.
func (p *parser) folded(s set) set {
	if p.options.fold {
		return s.folded()
	}
	return s
}

// classItem parses an item of a class. b is the byte, or -1 if the item is a set.
func (p *parser) classItem() (s set, b int, err error) {
	c := p.text[p.at]
	switch c {
	case '[':
		if s, ok, err := p.posix(); ok || err != nil {
			return s, -1, err
		}
	case '\\':
		p.at++
		if p.at == len(p.text) {
			return s, 0, errClass
		}
		return p.classEscape()
	}
	p.at++
	s.add(c)
	return s, int(c), nil
}

func (p *parser) classEscape() (s set, b int, err error) {
	c := p.text[p.at]
	switch c {
	case 'b':
		p.at++
		s.add('\b')
		return s, '\b', nil
	case 'Q':
		return s, 0, errors.New("\\Q in a class is not supported")
	case 'R', 'X', 'B', 'N', 'A', 'Z', 'z', 'G', 'K':
		return s, 0, fmt.Errorf("\\%c is not allowed in a class", c)
	}
	fold := p.options.fold // the whole class is folded later
	p.options.fold = false
	s, err = p.common()
	p.options.fold = fold
	if _, ok := classEscape(c); ok || c|0x20 == 'p' || err != nil {
		return s, -1, err
	}
	for !s.has(byte(b)) { // the only one
		b++
	}
	return s, b, nil
}

// posix parses a class such as [:alpha:], if one is next.
func (p *parser) posix() (s set, ok bool, err error) {
	rest := p.rest()
	if len(rest) < 2 || strings.IndexByte(":.=", rest[1]) < 0 {
		return s, false, nil
	}
	name, _, found := strings.Cut(rest[2:], rest[1:2]+"]")
	if !found || strings.ContainsAny(name, `]\`) {
		return s, false, nil
	}
	bare, not := strings.CutPrefix(name, "^")
	if s, ok = posixClass(bare); !ok || rest[1] != ':' {
		return s, false, fmt.Errorf("unknown class [%c%s%c]", rest[1], name, rest[1])
	}
	p.at += len(name) + 4
	if p.options.fold && (bare == "lower" || bare == "upper") {
		s, _ = posixClass("alpha")
	}
	return s.notIf(not), true, nil
}
