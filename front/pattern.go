package front

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/internal/pcre"
)

// pattern is a regular expression.
type pattern struct {
	re       *pcre.Regexp
	source   string
	captures bool // it has groups
	named    []namedGroup
}

// namedGroup is a group that sets a variable.
type namedGroup struct{ group, slot int }

// maxCaptures bounds the groups of a regular expression.
const maxCaptures = 64

// captures are the groups of the last match.
type captures struct {
	text   string
	bounds []int // pairs of indexes, -1 for a group that did not match
}

// group returns the text of a group, "" if it did not match.
func (c *captures) group(n int) string {
	if 2*n+1 >= len(c.bounds) || c.bounds[2*n] < 0 {
		return ""
	}
	return c.text[c.bounds[2*n]:c.bounds[2*n+1]]
}

// match reports whether s matches. If so it sets the exchange's captures, and the variables of
// named groups.
func (p *pattern) match(x *exchange, s string) bool {
	if !p.captures {
		if !p.matchOnly(x, s) {
			return false
		}
		x.captures = captures{}
		return true
	}
	bounds := p.find(x, s)
	if bounds == nil {
		return false
	}
	x.captures = captures{s, bounds}
	for _, g := range p.named {
		x.set(g.slot, x.captures.group(g.group))
	}
	return true
}

// matchOnly reports whether s matches, and leaves the captures unchanged.
func (p *pattern) matchOnly(x *exchange, s string) bool {
	if x.regexTimedOut {
		return false
	}
	ok, err := p.re.Match(s, &x.root().regexes)
	if err != nil {
		x.regexTimeout(p, err)
	}
	return ok
}

// anyMatches reports whether s matches one of several patterns.
func anyMatches(x *exchange, all []*pattern, s string) bool {
	for _, p := range all {
		if p.matchOnly(x, s) {
			return true
		}
	}
	return false
}

// find returns the bounds of the groups, or nil if s does not match.
func (p *pattern) find(x *exchange, s string) []int {
	if x.regexTimedOut {
		return nil
	}
	bounds, err := p.re.Find(s, &x.root().regexes)
	if err != nil {
		x.regexTimeout(p, err)
	}
	return bounds
}

// root returns the exchange of the client's request, whose subrequests share its steps.
func (x *exchange) root() *exchange {
	for x.parent != nil {
		x = x.parent
	}
	return x
}

// regexTimeout makes the exchange fail, because the result of a regular expression is unknown, and
// with it the rules that apply.
func (x *exchange) regexTimeout(p *pattern, err error) {
	if !x.regexTimedOut && x.loc != nil { // without a location findHost logs it
		x.errorf(levelError, "%v: %q", err, truncateLogged(p.source))
	}
	x.regexTimedOut = true
}

// pattern compiles a regular expression without its tilde. fold ignores case. The named groups must
// have been declared.
func (c *compiler) pattern(source string, fold bool) (*pattern, error) {
	p, err := c.parsePattern(source, fold)
	if err != nil || p.named != nil {
		return p, err
	}
	for number, name := range p.re.Names() {
		if name == "" {
			continue
		}
		slot, ok := c.slots[strings.ToLower(name)]
		if !ok {
			panic(fmt.Sprintf("front: BUG: the group %q of %q was not declared", name, source))
		}
		p.named = append(p.named, namedGroup{number, slot})
	}
	return p, nil
}

// parsePattern parses a regular expression, once per plan.
func (c *compiler) parsePattern(source string, fold bool) (*pattern, error) {
	return shared(c, patternKey{source, fold}, func() (*pattern, error) { return newPattern(source, fold) })
}

// patternKey identifies a pattern.
type patternKey struct {
	source string
	fold   bool
}

func newPattern(source string, fold bool) (*pattern, error) {
	re, err := pcre.Compile(source, fold)
	if err != nil {
		return nil, err
	}
	n := len(re.Names()) - 1
	if n > maxCaptures {
		return nil, fmt.Errorf("the regular expression %q has %d groups, want at most %d", source, n, maxCaptures)
	}
	return &pattern{re: re, source: source, captures: n > 0}, nil
}

// cutPattern returns the regular expression of a text ~REGEX or ~*REGEX. Of the latter, fold is
// true: case is ignored.
func cutPattern(text string) (source string, fold, ok bool) {
	source, ok = strings.CutPrefix(text, "~")
	source, star := strings.CutPrefix(source, "*")
	return source, ok && star, ok
}
