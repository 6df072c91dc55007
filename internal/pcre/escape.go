package pcre

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// escape parses an escape outside of classes, after the backslash.
func (p *parser) escape() (*node, error) {
	if p.at == len(p.text) {
		return nil, errors.New("backslash at the end")
	}
	c := p.text[p.at]
	p.at++
	switch c {
	case 'Q':
		return p.quoted(), nil
	case 'A', 'G':
		return &node{op: opBegin}, nil
	case 'z':
		return &node{op: opEnd}, nil
	case 'Z':
		return &node{op: opEndOrLine}, nil
	case 'b':
		return &node{op: opWord}, nil
	case 'B':
		return &node{op: opNoWord}, nil
	case 'K':
		return &node{op: opKeep}, nil
	case 'N':
		if p.accept("{") {
			return nil, errors.New("\\N{ is not supported")
		}
		return &node{op: opSet, set: setOf("\n").not()}, nil
	case 'C':
		return &node{op: opSet, set: set{}.not()}, nil
	case 'R':
		crlf := &node{op: opCat, subs: []*node{{op: opSet, set: setOf("\r")}, {op: opSet, set: setOf("\n")}}}
		return &node{op: opAtomic, subs: []*node{{op: opAlt,
			subs: []*node{crlf, {op: opSet, set: setOf("\n\v\f\r\x85")}}}}}, nil
	case 'g', 'k':
		return p.reference(c)
	}
	p.at-- // what follows parses it again
	if c >= '1' && c <= '9' {
		if n, length := p.backReference(); length > 0 {
			p.at += length
			return p.refToNumber(n), nil
		}
	}
	s, err := p.common()
	if err != nil {
		return nil, err
	}
	return &node{op: opSet, set: s}, nil
}

// quoted parses the text between \Q and \E. A following quantifier applies to its last byte.
func (p *parser) quoted() *node {
	text, _, ended := strings.Cut(p.rest(), `\E`)
	p.at += len(text)
	if ended {
		p.at += len(`\E`)
	}
	if len(text) == 1 {
		return p.literal(text[0])
	}
	n := &node{op: opCat}
	for i := range len(text) {
		n.subs = append(n.subs, p.literal(text[i]))
	}
	if len(n.subs) > 0 && p.quantifier() {
		last := len(n.subs) - 1
		if item, err := p.quantified(n.subs[last]); err == nil {
			n.subs[last] = item
		}
	}
	return n
}

// backReference parses the digits of \1. Two or more digits are an octal number, unless there are
// that many groups to the left.
func (p *parser) backReference() (number_, length int) {
	for length < len(p.rest()) && isDigit(p.rest()[length]) {
		length++
	}
	n := number(p.rest()[:length])
	if n < 10 || n < len(p.names) || p.rest()[0] >= '8' {
		return n, length
	}
	return 0, 0
}

// reference parses \g and \k.
func (p *parser) reference(c byte) (*node, error) {
	for _, ends := range []string{"{}", "<>", "''"} {
		if !p.accept(ends[:1]) {
			continue
		}
		text, _, ok := strings.Cut(p.rest(), ends[1:])
		if !ok {
			return nil, fmt.Errorf("unterminated \\%c", c)
		}
		if c == 'g' && ends != "{}" {
			return nil, errors.New("recursion by \\g is not supported")
		}
		p.at += len(text) + 1
		if isName(text) {
			return p.refTo(text), nil
		}
		if c == 'k' {
			return nil, fmt.Errorf("invalid group name %q", text)
		}
		return p.relative(text)
	}
	end := 0
	for end < len(p.rest()) && (isDigit(p.rest()[end]) || end == 0 && (p.rest()[0] == '-' || p.rest()[0] == '+')) {
		end++
	}
	text := p.rest()[:end]
	p.at += end
	if c == 'k' {
		return nil, errors.New("missing group name after \\k")
	}
	return p.relative(text)
}

// relative parses a group number, which is relative if it has a sign.
func (p *parser) relative(text string) (*node, error) {
	bare := strings.TrimLeft(text, "+-")
	if bare == "" || !digits(bare) || len(text)-len(bare) > 1 {
		return nil, fmt.Errorf("invalid group number %q", text)
	}
	n := p.groupNumber(text)
	if n <= 0 {
		return nil, fmt.Errorf("unknown group %q", text)
	}
	return p.refToNumber(n), nil
}

// groupNumber returns a group's number, which counts from here if it has a sign.
func (p *parser) groupNumber(text string) int {
	n := number(strings.TrimLeft(text, "+-"))
	switch text[0] {
	case '-':
		return len(p.names) - n
	case '+':
		return n + len(p.names) - 1
	}
	return n
}

// common parses the escapes that are allowed inside and outside of classes, after the backslash.
func (p *parser) common() (s set, err error) {
	c := p.text[p.at]
	p.at++
	if s, ok := classEscape(c); ok {
		return s, nil
	}
	var b byte
	switch c {
	case 'a', 'e', 'f', 'n', 'r', 't':
		b = "\a\x1b\f\n\r\t"[strings.IndexByte("aefnrt", c)]
	case 'p', 'P':
		return p.property(c == 'P')
	case 'c':
		if p.at == len(p.text) || p.text[p.at] < ' ' || p.text[p.at] > '~' {
			return s, errors.New("missing printable character after \\c")
		}
		if b = p.text[p.at]; b >= 'a' && b <= 'z' {
			b -= 'a' - 'A'
		}
		b ^= 0x40
		p.at++
	case 'o', 'x', '0', '1', '2', '3', '4', '5', '6', '7':
		if b, err = p.number(c); err != nil {
			return s, err
		}
	default:
		if isDigit(c) || isLetter(c) {
			return s, fmt.Errorf("\\%c is not supported", c)
		}
		b = c
	}
	s.add(b)
	return p.folded(s), nil
}

// number parses the number of a byte, after its first character.
func (p *parser) number(c byte) (byte, error) {
	base, most := 8, 2
	isPart := func(c byte) bool { return c >= '0' && c <= '7' }
	if c == 'x' {
		base = 16
		isPart = func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
	}
	text := ""
	if (c == 'x' || c == 'o') && p.accept("{") {
		var ok bool
		if text, _, ok = strings.Cut(p.rest(), "}"); !ok || text == "" {
			return 0, fmt.Errorf("unterminated \\%c{", c)
		}
		p.at += len(text) + 1
	} else if c == 'o' {
		return 0, errors.New("missing brace after \\o")
	} else {
		if c != 'x' {
			p.at--
			most = 3
		}
		end := 0
		for end < most && end < len(p.rest()) && isPart(p.rest()[end]) {
			end++
		}
		text = p.rest()[:end]
		if p.at += end; text == "" {
			return 0, nil // \x alone
		}
	}
	n, err := strconv.ParseUint(text, base, 32)
	if err != nil || n > 0xff {
		return 0, fmt.Errorf("\\%c: %q is not a byte", c, text)
	}
	return byte(n), nil
}

// property parses a property after \p.
func (p *parser) property(not bool) (set, error) {
	name := ""
	if p.accept("{") {
		var ok bool
		if name, _, ok = strings.Cut(p.rest(), "}"); !ok {
			return set{}, errors.New("unterminated \\p{")
		}
		p.at += len(name) + 1
		if bare, ok := strings.CutPrefix(name, "^"); ok {
			name, not = bare, !not
		}
	} else if p.at < len(p.text) {
		name = p.text[p.at : p.at+1]
		p.at++
	}
	s, ok := property(name)
	if !ok {
		return s, fmt.Errorf("unknown property %q", name)
	}
	return s.notIf(not), nil
}
