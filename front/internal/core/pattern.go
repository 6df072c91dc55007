package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/internal/pcre"
)

// Pattern is a regular expression.
type Pattern struct {
	Re       *pcre.Regexp
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

// Match reports whether s matches. If so it sets the exchange's captures, and the variables of
// named groups.
func (p *Pattern) Match(x *Exchange, s string) bool {
	if !p.captures {
		if !p.matchOnly(x, s) {
			return false
		}
		x.Captures = captures{}
		return true
	}
	bounds := p.Find(x, s)
	if bounds == nil {
		return false
	}
	x.Captures = captures{s, bounds}
	for _, g := range p.named {
		x.Set(g.slot, x.Captures.group(g.group))
	}
	return true
}

// matchOnly reports whether s matches, and leaves the captures unchanged.
func (p *Pattern) matchOnly(x *Exchange, s string) bool {
	if x.RegexTimedOut {
		return false
	}
	ok, err := p.Re.Match(s, x.Regexes())
	if err != nil {
		x.regexTimeout(p, err)
	}
	return ok
}

// AnyMatches reports whether s matches one of several patterns.
func AnyMatches(x *Exchange, all []*Pattern, s string) bool {
	return slices.ContainsFunc(all, func(p *Pattern) bool { return p.matchOnly(x, s) })
}

// Find returns the bounds of the groups, or nil if s does not match.
func (p *Pattern) Find(x *Exchange, s string) []int {
	if x.RegexTimedOut {
		return nil
	}
	bounds, err := p.Re.Find(s, x.Regexes())
	if err != nil {
		x.regexTimeout(p, err)
	}
	return bounds
}

// Regexes returns the budget of the request's regular expressions, including those of subrequests.
func (x *Exchange) Regexes() *pcre.Budget {
	root := x.Root()
	if root.regexes == nil {
		root.regexes = new(pcre.Budget)
	}
	return root.regexes
}

// Root returns the exchange of the client's request, whose subrequests share its steps.
func (x *Exchange) Root() *Exchange {
	for x.Parent != nil {
		x = x.Parent
	}
	return x
}

// regexTimeout makes the exchange fail, because the result of a regular expression is unknown, and
// with it the rules that apply.
func (x *Exchange) regexTimeout(p *Pattern, err error) {
	if !x.RegexTimedOut && x.Loc != nil { // without a location findHost logs it
		x.Errorf(errorlog.LevelError, "%v: %q", err, errorlog.Truncate(p.source))
	}
	x.RegexTimedOut = true
}

// Pattern compiles a regular expression without its tilde. fold ignores case. The named groups must
// have been declared.
func (c *Compiler) Pattern(what, source string, fold bool) *Pattern {
	p := c.ParsePattern(what, source, fold)
	if p.named != nil {
		return p
	}
	for number, name := range p.Re.Names() {
		if name == "" {
			continue
		}
		slot, ok := c.Slots[strings.ToLower(name)]
		if !ok {
			panic(fmt.Sprintf("core: BUG: the group %q of %q was not declared", name, source))
		}
		p.named = append(p.named, namedGroup{number, slot})
	}
	return p
}

// ParsePattern parses a regular expression, once per plan, without the variables of its groups.
func (c *Compiler) ParsePattern(what, source string, fold bool) *Pattern {
	return Shared(c, patternKey{source, fold}, func() *Pattern {
		p, err := newPattern(source, fold)
		c.Check(what, err)
		return p
	})
}

type patternKey struct {
	source string
	fold   bool
}

func newPattern(source string, fold bool) (*Pattern, error) {
	re, err := pcre.Compile(source, fold)
	if err != nil {
		return nil, err
	}
	n := len(re.Names()) - 1
	if n > maxCaptures {
		return nil, fmt.Errorf("the regular expression %q has %d groups, want at most %d", source, n, maxCaptures)
	}
	return &Pattern{Re: re, source: source, captures: n > 0}, nil
}

// CutPattern returns the regular expression of a text ~REGEX or ~*REGEX. Of the latter, fold is
// true: case is ignored.
func CutPattern(text string) (source string, fold, ok bool) {
	source, ok = strings.CutPrefix(text, "~")
	source, star := strings.CutPrefix(source, "*")
	return source, ok && star, ok
}
