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
	case 'k':
		return p.reference()
	}
	p.at-- // what follows parses it again
	if c >= '1' && c <= '9' {
		if n, length := p.backReference(); length > 0 {
			p.at += length
			return p.refTo("", n), nil
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

// reference parses \k{name}, \k<name> or \k'name'.
func (p *parser) reference() (*node, error) {
	for _, ends := range []string{"{}", "<>", "''"} {
		if p.accept(ends[:1]) {
			name, err := p.name(ends[1])
			return p.refTo(name, 0), err
		}
	}
	return nil, errors.New("missing group name after \\k")
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
	case 'x', '0', '1', '2', '3', '4', '5', '6', '7':
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
	base, most, allowed := 16, 2, "0123456789abcdefABCDEF"
	if c != 'x' {
		p.at-- // it is a digit itself
		base, most, allowed = 8, 3, "01234567"
	}
	text := p.rest()[:min(most, len(p.rest()))]
	text = text[:len(text)-len(strings.TrimLeft(text, allowed))]
	if c == 'x' && p.accept("{") {
		var ok bool
		if text, _, ok = strings.Cut(p.rest(), "}"); !ok || text == "" {
			return 0, errors.New("unterminated \\x{")
		}
		p.at++
	} else if text == "" {
		return 0, nil // \x alone
	}
	p.at += len(text)
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
