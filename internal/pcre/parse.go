package pcre

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// options are the options of (?imsx).
type options struct{ fold, lines, dotAll, extended bool }

// parser parses an expression to a tree.
type parser struct {
	text    string
	at      int
	options options
	names   []string // of the groups; the first one is the whole match
	refs    []*node  // backreferences, possibly to later groups
	depth   int
}

const (
	maxDepth  = 250 // nesting of parentheses, as in PCRE
	maxRepeat = 65535
	maxGroups = 1000
)

var errUnclosed = errors.New("missing \")\"")

func (p *parser) parse() (*node, error) {
	p.names = []string{""}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, errors.New("unexpected \")\"")
	}
	for _, r := range p.refs {
		if r.name != "" {
			r.n = p.group(r.name)
		}
		if r.n < 0 {
			return nil, fmt.Errorf("unknown group %q", r.name)
		}
		if r.n >= len(p.names) {
			return nil, fmt.Errorf("unknown group %d", r.n)
		}
	}
	return n, nil
}

// group returns the number of a group by its name, or -1.
func (p *parser) group(name string) int {
	for i, n := range p.names {
		if i > 0 && n == name {
			return i
		}
	}
	return -1
}

func (p *parser) rest() string { return p.text[p.at:] }

// accept skips a prefix if it is next, and reports whether it was.
func (p *parser) accept(prefix string) bool {
	if strings.HasPrefix(p.rest(), prefix) {
		p.at += len(prefix)
		return true
	}
	return false
}

// alternatives parses up to the end or a closing parenthesis. Options set inside apply until there.
func (p *parser) alternatives() (*node, error) {
	before := p.options
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("parentheses nested more than %d deep", maxDepth)
	}
	all := &node{op: opAlt}
	for {
		n, err := p.sequence()
		if err != nil {
			return nil, err
		}
		all.subs = append(all.subs, n)
		if !p.accept("|") {
			break
		}
	}
	p.options = before
	p.depth--
	if len(all.subs) == 1 {
		return all.subs[0], nil
	}
	return all, nil
}

// sequence parses one alternative.
func (p *parser) sequence() (*node, error) {
	n := &node{op: opCat}
	for {
		p.skip()
		if p.at == len(p.text) || p.text[p.at] == '|' || p.text[p.at] == ')' {
			return n, nil
		}
		item, err := p.item()
		if err != nil {
			return nil, err
		}
		if item == nil { // options, or a comment
			if p.skip(); p.quantifier() {
				return nil, errQuantifier
			}
			continue
		}
		if item, err = p.quantified(item); err != nil {
			return nil, err
		}
		n.subs = append(n.subs, item)
	}
}

// skip skips what matches nothing: comments, spaces with (?x), an empty \Q\E, and \E.
func (p *parser) skip() {
	for p.at < len(p.text) {
		switch {
		case p.accept(`\E`), p.accept(`\Q\E`):
		case p.options.extended && isSpace(p.text[p.at]):
			p.at++
		case p.options.extended && p.text[p.at] == '#':
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		case strings.HasPrefix(p.rest(), "(?#") && strings.Contains(p.rest(), ")"):
			p.at += strings.IndexByte(p.rest(), ')') + 1
		default:
			return
		}
	}
}

var errQuantifier = errors.New("quantifier follows nothing that can be repeated")

// quantifier reports whether a quantifier follows.
func (p *parser) quantifier() bool {
	if p.at == len(p.text) {
		return false
	}
	c := p.text[p.at]
	if c == '{' {
		_, _, n := bounds(p.rest())
		return n > 0
	}
	return c == '*' || c == '+' || c == '?'
}

// item parses an item that can be repeated. It returns nil if the item matches nothing.
func (p *parser) item() (*node, error) {
	if p.quantifier() {
		return nil, errQuantifier
	}
	c := p.text[p.at]
	p.at++
	switch c {
	case '(':
		return p.parenthesis()
	case '[':
		s, err := p.class()
		return &node{op: opSet, set: s}, err
	case '.':
		if p.options.dotAll {
			return &node{op: opSet, set: set{}.not()}, nil
		}
		return &node{op: opSet, set: setOf("\n").not()}, nil
	case '^':
		if p.options.lines {
			return &node{op: opLineBegin}, nil
		}
		return &node{op: opBegin}, nil
	case '$':
		if p.options.lines {
			return &node{op: opLineEnd}, nil
		}
		return &node{op: opEndOrLine}, nil
	case '\\':
		return p.escape()
	}
	return p.literal(c), nil
}

func (p *parser) literal(c byte) *node {
	var s set
	s.add(c)
	return &node{op: opSet, set: p.folded(s)}
}

// quantified parses the quantifier after an item, if there is one.
func (p *parser) quantified(item *node) (*node, error) {
	if p.skip(); !p.quantifier() {
		return item, nil
	}
	least, most := 0, -1
	switch c := p.text[p.at]; c {
	case '{':
		var n int
		least, most, n = bounds(p.rest())
		if least > maxRepeat || most > maxRepeat || most >= 0 && most < least {
			return nil, fmt.Errorf("invalid quantifier %q (bounds up to %d, the lower one first)", p.rest()[:n],
				maxRepeat)
		}
		p.at += n
	default:
		if p.at++; c == '+' {
			least = 1
		} else if c == '?' {
			most = 1
		}
	}
	if item.op >= opBegin && item.op <= opNoWord || item.op == opKeep { // an assertion
		return nil, errQuantifier
	}
	if item.op == opLook { // once is enough
		least, most = min(least, 1), 1
	}
	item = &node{op: opRepeat, min: least, max: most, lazy: p.accept("?"), subs: []*node{item}}
	if !item.lazy && p.accept("+") { // possessive
		item = &node{op: opAtomic, subs: []*node{item}}
	}
	if p.skip(); p.quantifier() {
		return nil, errQuantifier
	}
	return item, nil
}

// bounds parses {n}, {n,} or {n,m}. The length is 0 if the text is none of them: then the brace is
// literal.
func bounds(s string) (least, most, length int) {
	end := strings.IndexByte(s, '}')
	if end < 2 || s[0] != '{' {
		return 0, 0, 0
	}
	low, high, ranged := strings.Cut(s[1:end], ",")
	if !digits(low) || low == "" || !digits(high) {
		return 0, 0, 0
	}
	least = number(low)
	switch {
	case !ranged:
		most = least
	case high == "":
		most = -1
	default:
		most = number(high)
	}
	return least, most, end + 1
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// number converts digits; numbers that are too large become maxRepeat+1.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > maxRepeat {
		return maxRepeat + 1
	}
	return n
}
