package front

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dlclark/regexp2"
)

// pattern is a regular expression. Those that package regexp knows take time that is linear in the text; what it refuses, such as
// looking ahead and references to groups, a matcher does that tries, and that is stopped if it takes long.
type pattern struct {
	linear *regexp.Regexp
	trying *regexp2.Regexp // if linear is nil
	groups []patternGroup  // of trying, the whole match first
	named  []namedGroup
}

// patternGroup is one of a pattern, by the number that trying has for it: it counts those with names last.
type patternGroup struct {
	name   string // "" without
	number int
}

// namedGroup is a group whose text becomes a variable's value.
type namedGroup struct{ group, slot int }

// patternTimeout bounds, to about a tenth of a second, how long a text is tried to be matched. Usual ones take microseconds.
const patternTimeout = 50 * time.Millisecond

// maxCaptures is how many groups texts can name: $1 to $9, and named ones.
const maxCaptures = 64

// captures are the groups of the pattern that matched last.
type captures struct {
	text   string
	bounds []int // of the groups, in pairs, -1 for one that did not match
}

// group is the text of one, empty if it did not match.
func (c *captures) group(n int) string {
	if 2*n+1 >= len(c.bounds) || c.bounds[2*n] < 0 {
		return ""
	}
	return c.text[c.bounds[2*n]:c.bounds[2*n+1]]
}

// match reports whether s matches. If so the groups are the exchange's captures, and the named ones have their values. If that
// takes too long the exchange is stuck: it will fail, because nobody knows what rule it has passed by.
func (p *pattern) match(x *exchange, s string) bool {
	if p.linear != nil && p.linear.NumSubexp() == 0 {
		if !p.linear.MatchString(s) {
			return false
		}
		x.captures = captures{}
		return true
	}
	bounds, err := p.find(s)
	if err != nil {
		x.stuck = true
	}
	if bounds == nil {
		return false
	}
	x.captures = captures{s, bounds}
	for _, g := range p.named {
		x.set(g.slot, x.captures.group(g.group))
	}
	return true
}

// fits reports whether s matches, and leaves the exchange's captures as they are. One that takes too long has it stuck, as in match.
func (p *pattern) fits(x *exchange, s string) bool {
	if p.linear != nil {
		return p.linear.MatchString(s)
	}
	ok, err := p.trying.MatchString(s)
	x.stuck = x.stuck || err != nil
	return ok
}

// find returns the bounds of the groups, nil if s does not match. Its error is that it took too long.
func (p *pattern) find(s string) ([]int, error) {
	if p.linear != nil {
		return p.linear.FindStringSubmatchIndex(s), nil
	}
	m, err := p.trying.FindStringMatch(s)
	if err != nil || m == nil {
		return nil, err
	}
	offset := byteOffsets(s)
	bounds := make([]int, 0, 2*len(p.groups))
	for _, group := range p.groups {
		if g := m.GroupByNumber(group.number); g != nil && len(g.Captures) > 0 {
			bounds = append(bounds, offset(g.Index), offset(g.Index+g.Length))
		} else {
			bounds = append(bounds, -1, -1)
		}
	}
	return bounds, nil
}

// byteOffsets turns offsets in runes into those in bytes.
func byteOffsets(s string) func(int) int {
	var starts []int
	for i := range s {
		starts = append(starts, i)
	}
	return func(n int) int {
		if n >= len(starts) {
			return len(s)
		}
		return starts[n]
	}
}

// pattern compiles a regular expression, without its tilde. fold has it match without regard to case. Its named
// groups must have been declared.
func (c *compiler) pattern(source string, fold bool) (*pattern, error) {
	p, err := c.parsePattern(source, fold)
	if err != nil || p.named != nil {
		return p, err
	}
	for number, name := range p.groupNames() {
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

// parsePattern parses a regular expression, once.
func (c *compiler) parsePattern(source string, fold bool) (*pattern, error) {
	key := patternKey{source, fold}
	if p := c.patterns[key]; p != nil {
		return p, nil
	}
	p, err := newPattern(source, fold)
	if err == nil {
		c.patterns[key] = p
	}
	return p, err
}

// patternKey is what a pattern was made of.
type patternKey struct {
	source string
	fold   bool
}

func newPattern(source string, fold bool) (*pattern, error) {
	source = strings.TrimPrefix(source, "(*UTF8)")
	flags, options := "", regexp2.RegexOptions(regexp2.RE2)
	if fold {
		flags, options = "(?i)", options|regexp2.IgnoreCase
	}
	p := &pattern{}
	var err error
	if p.linear, err = regexp.Compile(flags + source); err != nil {
		p.linear = nil
		var tryErr error
		if p.trying, tryErr = regexp2.Compile(source, options); tryErr != nil {
			return nil, fmt.Errorf("the regular expression %q: %w", source, err)
		}
		p.trying.MatchTimeout = patternTimeout
		p.groups = groupsOf(p.trying, source)
	}
	if n := len(p.groupNames()) - 1; n > maxCaptures {
		return nil, fmt.Errorf("the regular expression %q has %d groups, want at most %d", source, n, maxCaptures)
	}
	return p, nil
}

// groupNames are the names of the groups by number, "" for those without.
func (p *pattern) groupNames() []string {
	if p.linear != nil {
		return p.linear.SubexpNames()
	}
	names := make([]string, len(p.groups))
	for i, g := range p.groups {
		names[i] = g.name
	}
	return names
}

// groupsOf are the groups of a regular expression in the order of their parentheses, which is how PCRE counts them.
func groupsOf(trying *regexp2.Regexp, source string) []patternGroup {
	all, unnamed := []patternGroup{{}}, 0
	inClass := false
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case c == '\\':
			i++
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
			if strings.HasPrefix(source[i+1:], "^") {
				i++
			}
			if strings.HasPrefix(source[i+1:], "]") {
				i++ // one at the beginning is one of the class
			}
		case c == '(' && !strings.HasPrefix(source[i+1:], "?"):
			unnamed++
			all = append(all, patternGroup{number: unnamed})
		case c == '(':
			if name := groupName(source[i+2:]); name != "" {
				all = append(all, patternGroup{name, trying.GroupNumberFromName(name)})
			}
		}
	}
	return all
}

// groupName is the name of a group of which s follows the question mark, "" if it has none.
func groupName(s string) string {
	s = strings.TrimPrefix(s, "P")
	if len(s) < 2 || s[0] != '<' && s[0] != '\'' || s[1] == '=' || s[1] == '!' {
		return ""
	}
	end := strings.IndexAny(s[1:], ">'")
	if end < 0 {
		return ""
	}
	return s[1 : 1+end]
}
