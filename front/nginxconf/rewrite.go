package nginxconf

import (
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// steps translates a block's own directives of nginx's rewrite module, in their order.
func (t *translator) steps(s *scope) []conf.Step {
	var steps []conf.Step
	for _, d := range s.list {
		if step := t.step(d, s); step != nil {
			steps = append(steps, step)
		}
	}
	return steps
}

// step translates a directive; nil if it belongs to another module.
func (t *translator) step(d *syntax.Directive, s *scope) conf.Step {
	switch d.Name {
	case "set":
		return conf.Set{Name: t.variableName(d, d.Args[0]), Value: t.text(d, d.Args[1]), Pos: d.Place()}
	case "break":
		return conf.Break{}
	case "return":
		return t.returnStep(d)
	case "rewrite":
		return t.rewrite(d)
	case "if":
		return t.condition(d, s)
	}
	return nil
}

func (t *translator) returnStep(d *syntax.Directive) conf.Step {
	if first := d.Args[0]; len(d.Args) == 1 && (strings.HasPrefix(first, "http://") ||
		strings.HasPrefix(first, "https://") || strings.HasPrefix(first, "$scheme")) {
		return conf.Return{Status: 302, Text: t.text(d, d.Args[0]), Pos: d.Place()}
	}
	n, err := grammar.ParseNumber(d.Args[0])
	if err != nil || n > 999 {
		t.errorf(d, "invalid status %s (must be a number, or a URL with http://, https:// or $scheme)",
			grammar.Quote(d.Args[0]))
	}
	r := conf.Return{Status: int(n), Pos: d.Place()}
	if len(d.Args) == 2 {
		r.Text = conf.Text(d.Args[1])
		if r.Status == 200 {
			t.reportedText(d, d.Args[1])
		} else { // it may be a location
			t.text(d, d.Args[1])
		}
	}
	return r
}

func (t *translator) rewrite(d *syntax.Directive) conf.Step {
	r := conf.Rewrite{Pattern: d.Args[0], To: t.text(d, d.Args[1]), Pos: d.Place()}
	if len(d.Args) == 3 {
		r.Flag = d.Args[2]
	}
	return r
}

func (t *translator) condition(d *syntax.Directive, s *scope) conf.Step {
	c, ok := t.conditionOf(d)
	if !ok {
		return nil
	}
	c.Pos = d.Place()
	inner, others := newScope(s, s.level, d.Block), false
	for _, i := range d.Block {
		if step := t.step(i, inner); step != nil {
			c.Then = append(c.Then, step)
		} else if i.Spec.Support == syntax.Supported {
			others = true
		}
	}
	if others && s.location != nil {
		c.Location = t.locationOfIf(d, inner)
	}
	return c
}

// locationOfIf returns the location that an if in a location defines: the location's settings, with
// those of the if.
func (t *translator) locationOfIf(d *syntax.Directive, s *scope) *conf.Location {
	of := s.outer.location
	l := &conf.Location{Match: of.Match, Path: of.Path, Pos: d.Place(), Settings: t.settings(s)}
	from := s
	if !s.passes() {
		from = s.outer // the outer location's content handler serves it
	}
	l.Empty = from.own("empty_gif") != nil
	t.status(from, l)
	t.passesOf(from, s, l)
	t.oneContent(from)
	t.checkPassword(s)
	return l
}

// conditionOf parses a condition, whose parentheses are parts of its first and last words.
func (t *translator) conditionOf(d *syntax.Directive) (conf.If, bool) {
	var c conf.If
	words := append([]string(nil), d.Args...)
	last := len(words) - 1
	if !strings.HasPrefix(words[0], "(") || !strings.HasSuffix(words[last], ")") || len(words) == 1 &&
		len(words[0]) < 2 {
		t.errorf(d, "invalid condition %s (must be in parentheses)", grammar.Quote(strings.Join(words, " ")))
		return c, false
	}
	words[last] = strings.TrimSuffix(words[last], ")")
	words[0] = strings.TrimPrefix(words[0], "(")
	if words[len(words)-1] == "" {
		words = words[:len(words)-1]
	}
	if len(words) > 0 && words[0] == "" {
		words = words[1:]
	}
	if len(words) == 0 {
		t.errorf(d, "missing condition")
		return c, false
	}
	return t.conditionWords(d, words)
}

func (t *translator) conditionWords(d *syntax.Directive, words []string) (conf.If, bool) {
	var c conf.If
	bad := func() (conf.If, bool) {
		t.errorf(d, "invalid condition %s (examples: ($x), ($x = y), ($x != y), ($x ~ regex), (-f path))",
			grammar.Quote(strings.Join(words, " ")))
		return c, false
	}
	switch first := words[0]; {
	case strings.HasPrefix(first, "$"):
		c.Left = t.variable(d, first)
		switch len(words) {
		case 1:
			return c, true
		case 3:
			c.Op, c.Right = words[1], conf.Text(words[2])
		default:
			return bad()
		}
		switch c.Op {
		case "=", "!=":
			c.Right = t.text(d, words[2])
			return c, true
		case "~", "~*", "!~", "!~*":
			return c, true
		}
	case len(words) == 2 && slices.Contains([]string{"-f", "-d", "-e", "-x"}, strings.TrimPrefix(first, "!")):
		c.Op, c.Left = first, t.text(d, words[1])
		return c, true
	}
	return bad()
}
