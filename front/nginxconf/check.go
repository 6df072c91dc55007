package nginxconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/internal/grammar"
)

// checker checks a tree against the table.
type checker struct {
	table *table
	// report receives errors.
	report func(*textError)
	// keep reports whether a valid directive stays in the tree.
	keep func(*directive) bool
}

// check returns the directives of a block that are known, allowed at the level, well-formed and
// kept.
func (c *checker) check(block []*directive, level string) []*directive {
	kept := block[:0]
	first := make(map[string]*directive)
	for _, d := range block {
		s, here := c.table.find(d.name, level)
		if s == nil {
			c.report(&textError{pos: d.pos, number: d.number, text: "unknown directive " + grammar.Quote(d.name)})
			continue
		}
		if !here {
			c.report(d.errorf("not allowed in %s (allowed in: %s)", level, strings.Join(s.contexts, ", ")))
			continue
		}
		d.spec = s
		if err := d.check(first); err != nil {
			c.report(err)
			continue
		}
		if d.hasBlock && s.support == supported {
			if inner := within(d.name, level); inner != "" {
				d.block = c.check(d.block, inner)
			}
		}
		if c.keep(d) {
			kept = append(kept, d)
		}
	}
	return kept
}

// within returns the level of a directive's block; "" if the block is data.
func within(name, level string) string {
	switch name {
	case "types", "map", "geo", "split_clients":
		return ""
	case "if":
		return level + "/if"
	}
	return name
}

// check checks arguments and block against the table. first has the first directives of the block
// by their names.
func (d *directive) check(first map[string]*directive) *textError {
	s := d.spec
	switch {
	case s.block && !d.hasBlock:
		return d.errorf("missing block: \"{\" expected")
	case d.hasBlock && !s.block && !s.blockMayBe:
		return d.errorf("unexpected block: \";\" expected")
	case len(d.args) < s.least || s.most >= 0 && len(d.args) > s.most:
		return d.errorf("%s, but %s required", plural(len(d.args), "argument"), s.wanted())
	case !s.repeats && first[d.name] != nil:
		return d.errorf("duplicate (first one at %s)", first[d.name].where())
	case first[d.name] != nil && standsAlone(d.name) && (d.isOff() || first[d.name].isOff()):
		return d.errorf("off cannot be combined with other values (%s)", first[d.name].where())
	}
	first[d.name] = d
	if err := s.checkValues(d.args); err != nil {
		return d.errorf("%v", err)
	}
	return nil
}

// statesDefault reports whether the argument of a rejected directive only states the default.
func (d *directive) statesDefault() bool {
	return len(d.args) > 0 && slices.Contains(d.spec.unless, strings.ToLower(d.args[0]))
}

// isOff reports whether "off" is the only argument.
func (d *directive) isOff() bool { return len(d.args) == 1 && d.args[0] == "off" }

// standsAlone reports whether off, as the value of a directive, allows no other in its block.
func standsAlone(name string) bool {
	switch name {
	case "proxy_redirect", "proxy_cookie_domain", "proxy_cookie_path", "proxy_cookie_flags":
		return true
	}
	return false
}

func plural(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// wanted returns the number of arguments that the table requires.
func (s *spec) wanted() string {
	switch {
	case s.most < 0 && s.least == 0:
		return "any number"
	case s.most < 0:
		return fmt.Sprintf("%d or more", s.least)
	case s.most == s.least:
		return fmt.Sprint(s.most)
	}
	return fmt.Sprintf("%d to %d", s.least, s.most)
}

// checkValues checks the arguments by their kind.
func (s *spec) checkValues(args []string) error {
	switch s.kind {
	case "count":
		return nil
	case "buffers":
		if n, err := grammar.ParseNumber(args[0]); err != nil || n == 0 {
			return fmt.Errorf("invalid number of buffers %s (must be at least 1)", grammar.Quote(args[0]))
		}
		if n, err := grammar.ParseSize(args[1]); err != nil || n == 0 {
			return fmt.Errorf("invalid buffer size %s (example: 8k)", grammar.Quote(args[1]))
		}
		return nil
	case "words":
		for _, arg := range args {
			if err := s.checkWord(arg); err != nil {
				return err
			}
		}
		return nil
	}
	if s.kind == "forms" {
		if !slices.ContainsFunc(s.details, func(form string) bool { return hasForm(args, form) }) {
			return fmt.Errorf("invalid arguments (must be %s)", strings.Join(s.details, ", or "))
		}
		return nil
	}
	for _, arg := range args {
		if err := checkValue(s.kind, s.details, arg); err != nil {
			return err
		}
	}
	return nil
}

// hasForm reports whether arguments have a form: words, TEXT for any one, or "none".
func hasForm(args []string, form string) bool {
	if form == "none" {
		return len(args) == 0
	}
	return slices.EqualFunc(args, strings.Fields(form),
		func(arg, word string) bool { return word == "TEXT" || arg == word })
}

// checkWord checks an argument against the details: a word, a kind of value, or word=kind.
func (s *spec) checkWord(arg string) error {
	for _, detail := range s.details {
		if name, kind, ok := strings.Cut(detail, "="); ok {
			if value, found := strings.CutPrefix(arg, name+"="); found {
				return checkValue(kind, nil, value)
			}
		} else if name, ok := strings.CutSuffix(detail, ":text"); ok {
			if strings.HasPrefix(arg, name+":") {
				return nil
			}
		} else if detail == arg || detail == "size" && checkValue("size", nil, arg) == nil {
			return nil
		}
	}
	return fmt.Errorf("invalid value %s (must be one of %s)", grammar.Quote(arg), strings.Join(s.details, ", "))
}

// checkValue checks that a value is one of a kind.
func checkValue(kind string, details []string, value string) error {
	var err error
	switch kind {
	case "flag":
		_, err = grammar.ParseFlag(value)
	case "number":
		err = checkNumber(details, value)
	case "size":
		_, err = grammar.ParseSize(value)
	case "offset":
		_, err = grammar.ParseOffset(value)
	case "time":
		_, err = grammar.ParseTime(value)
	case "seconds":
		_, err = grammar.ParseSeconds(value)
	case "one", "some":
		known := strings.Split(details[0], "/")
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, value) }) {
			err = fmt.Errorf("invalid value %s (must be one of %s)", grammar.Quote(value), strings.Join(known, ", "))
		}
	}
	return err
}

// checkNumber checks a number, and its range if the kind has one: "1..9".
func checkNumber(bounds []string, value string) error {
	n, err := grammar.ParseNumber(value)
	if err != nil || len(bounds) == 0 {
		return err
	}
	low, high, _ := strings.Cut(bounds[0], "..")
	least, _ := grammar.ParseNumber(low)
	most, _ := grammar.ParseNumber(high)
	if n < least || n > most {
		return fmt.Errorf("%s is out of range (%d to %d)", value, least, most)
	}
	return nil
}
