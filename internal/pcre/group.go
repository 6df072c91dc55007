package pcre

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// parenthesis parses a group after its opening parenthesis.
func (p *parser) parenthesis() (*node, error) {
	switch {
	case p.accept("*"):
		return nil, errors.New("verbs such as (*SKIP) and (*UTF8) are not supported: expressions match bytes")
	case !p.accept("?"):
		return p.capture("")
	case p.accept(":"):
		return p.closed()
	case p.accept(">"):
		return p.around(&node{op: opAtomic}, false)
	case p.accept("="):
		return p.around(&node{op: opLook}, false)
	case p.accept("!"):
		return p.around(&node{op: opLook, not: true}, false)
	case p.accept("<="):
		return p.around(&node{op: opLook}, true)
	case p.accept("<!"):
		return p.around(&node{op: opLook, not: true}, true)
	case p.accept("P="):
		name, err := p.name(')')
		return p.refTo(name, 0), err
	case p.accept("P<"), p.accept("<"):
		return p.namedCapture('>')
	case p.accept("'"):
		return p.namedCapture('\'')
	case p.accept("("):
		return nil, errors.New("conditions are not supported")
	}
	if c := p.rest(); c != "" && (strings.IndexByte("R&C+0123456789", c[0]) >= 0 || strings.HasPrefix(c, "P>") ||
		len(c) > 1 && c[0] == '-' && isDigit(c[1])) {
		return nil, errors.New("recursion and callouts are not supported")
	}
	return p.switches()
}

// closed parses a group up to its closing parenthesis.
func (p *parser) closed() (*node, error) {
	n, err := p.alternatives()
	if err == nil && !p.accept(")") {
		err = errUnclosed
	}
	return n, err
}

// around parses the group of an atomic group or a lookaround. That of a lookbehind begins with a move
// back.
func (p *parser) around(n *node, looksBack bool) (*node, error) {
	body, err := p.closed()
	if err != nil {
		return nil, err
	}
	if n.op != opAtomic && body.has(opKeep) {
		return nil, errors.New("\\K is not allowed in an assertion")
	}
	if looksBack && !fixed(body) {
		return nil, errors.New("lookbehind does not have a fixed length")
	} else if looksBack {
		body = behind(body)
	}
	n.subs = []*node{body}
	return n, nil
}

// fixed reports whether each alternative has a fixed length.
func fixed(n *node) bool {
	return n.op != opAlt && n.length() >= 0 || n.op == opAlt && n.all(fixed)
}

// behind makes each alternative of a lookbehind start as far back as its length.
func behind(n *node) *node {
	if n.op != opAlt {
		return &node{op: opCat, subs: []*node{{op: opBack, n: n.length()}, n}}
	}
	out := &node{op: opAlt}
	for _, s := range n.subs {
		out.subs = append(out.subs, behind(s))
	}
	return out
}

func (p *parser) capture(name string) (*node, error) {
	n := &node{op: opCapture, n: len(p.names)}
	if p.names = append(p.names, name); len(p.names) > maxGroups {
		return nil, fmt.Errorf("more than %d groups", maxGroups)
	}
	body, err := p.closed()
	n.subs = []*node{body}
	return n, err
}

func (p *parser) namedCapture(end byte) (*node, error) {
	name, err := p.name(end)
	if err != nil {
		return nil, err
	}
	if p.group(name) >= 0 {
		return nil, fmt.Errorf("duplicate group %q", name)
	}
	return p.capture(name)
}

// name parses a group's name and its delimiter.
func (p *parser) name(end byte) (string, error) {
	n := strings.IndexByte(p.rest(), end)
	if n < 0 {
		return "", fmt.Errorf("missing %q after a group name", end)
	}
	name := p.rest()[:n]
	if !isName(name) {
		return "", fmt.Errorf("invalid group name %q", name)
	}
	p.at += n + 1
	return name, nil
}

func isName(s string) bool {
	return s != "" && len(s) <= 32 && !isDigit(s[0]) &&
		!slices.ContainsFunc([]byte(s), func(c byte) bool { return !isWord(c) })
}

// refTo returns a reference to a group by its name, or else by its number.
func (p *parser) refTo(name string, number int) *node {
	n := &node{op: opRef, fold: p.options.fold, name: name, n: number}
	p.refs = append(p.refs, n)
	return n
}

// switches parses options, for the rest of the enclosing group or for a group of their own.
func (p *parser) switches() (*node, error) {
	o, on := p.options, true
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch c {
		case 'i':
			o.fold = on
		case 'm':
			o.lines = on
		case 's':
			o.dotAll = on
		case 'x':
			o.extended = on
			if p.accept("x") {
				return nil, errors.New("option (?xx) is not supported")
			}
		case '-':
			if !on {
				return nil, errors.New("two minus signs in options")
			}
			on = false
		case ')':
			p.options = o
			return nil, nil
		case ':':
			before := p.options
			p.options = o
			n, err := p.closed()
			p.options = before
			return n, err
		default:
			return nil, fmt.Errorf("(?%c is not supported", c)
		}
	}
	return nil, errUnclosed
}
