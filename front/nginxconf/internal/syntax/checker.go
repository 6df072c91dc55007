package syntax

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/internal/grammar"
)

// Checker checks a tree against the table.
type Checker struct {
	Table *Table
	// Report receives errors.
	Report func(*Error)
	// Keep reports whether a valid directive stays in the tree.
	Keep func(*Directive) bool
}

// Check returns the directives of a block that are known, allowed at the level, well-formed and
// kept.
func (c *Checker) Check(block []*Directive, level string) []*Directive {
	kept := block[:0]
	first := make(map[string]*Directive)
	for _, d := range block {
		s, here := c.Table.Find(d.Name, level)
		if s == nil {
			c.Report(&Error{Pos: d.Pos, Number: d.Number, Text: "unknown directive " + grammar.Quote(d.Name)})
			continue
		}
		if !here {
			c.Report(d.Errorf("not allowed in %s (allowed in: %s)", level, strings.Join(s.Contexts, ", ")))
			continue
		}
		d.Spec = s
		if err := d.check(first); err != nil {
			c.Report(err)
			continue
		}
		if d.HasBlock && s.Support == Supported {
			if inner := within(d.Name, level); inner != "" {
				d.Block = c.Check(d.Block, inner)
			}
		}
		if c.Keep(d) {
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
func (d *Directive) check(first map[string]*Directive) *Error {
	s := d.Spec
	switch {
	case s.Block && !d.HasBlock:
		return d.Errorf("missing block: \"{\" expected")
	case d.HasBlock && !s.Block && !s.BlockMayBe:
		return d.Errorf("unexpected block: \";\" expected")
	case len(d.Args) < s.Least || s.Most >= 0 && len(d.Args) > s.Most:
		return d.Errorf("%s, but %s required", Plural(len(d.Args), "argument"), s.wanted())
	case !s.Repeats && first[d.Name] != nil:
		return d.Errorf("duplicate (first one at %s)", first[d.Name].Where())
	case first[d.Name] != nil && (d.IsOff() || first[d.Name].IsOff()) && slices.Contains([]string{"proxy_redirect",
		"proxy_cookie_domain", "proxy_cookie_path", "proxy_cookie_flags"}, d.Name):
		return d.Errorf("off cannot be combined with other values (%s)", first[d.Name].Where())
	}
	first[d.Name] = d
	if err := s.checkValues(d.Args); err != nil {
		return d.Errorf("%v", err)
	}
	return nil
}

// StatesDefault reports whether the argument of a rejected directive only states the default.
func (d *Directive) StatesDefault() bool {
	return len(d.Args) > 0 && slices.Contains(d.Spec.Unless, strings.ToLower(d.Args[0]))
}

// Plural returns a number with its noun.
func Plural(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// wanted returns the number of arguments that the table requires.
func (s *Spec) wanted() string {
	switch {
	case s.Most < 0 && s.Least == 0:
		return "any number"
	case s.Most < 0:
		return fmt.Sprintf("%d or more", s.Least)
	case s.Most == s.Least:
		return fmt.Sprint(s.Most)
	}
	return fmt.Sprintf("%d to %d", s.Least, s.Most)
}

func (s *Spec) checkValues(args []string) error {
	switch s.Kind {
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
	case "forms":
		if !slices.ContainsFunc(s.Details, func(form string) bool { return hasForm(args, form) }) {
			return fmt.Errorf("invalid arguments (must be %s)", strings.Join(s.Details, ", or "))
		}
		return nil
	}
	for _, arg := range args {
		if err := checkValue(s.Kind, s.Details, arg); err != nil {
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
func (s *Spec) checkWord(arg string) error {
	for _, detail := range s.Details {
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
	return fmt.Errorf("invalid value %s (must be one of %s)", grammar.Quote(arg), strings.Join(s.Details, ", "))
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

// checkNumber checks a number, and its range if the kind has one: "1..9" or "1..".
func checkNumber(bounds []string, value string) error {
	n, err := grammar.ParseNumber(value)
	if err != nil || len(bounds) == 0 {
		return err
	}
	low, high, _ := strings.Cut(bounds[0], "..")
	least, _ := grammar.ParseNumber(low)
	most, _ := grammar.ParseNumber(high)
	if high == "" && n < least {
		return fmt.Errorf("%s is out of range (at least %d)", value, least)
	}
	if high != "" && (n < least || n > most) {
		return fmt.Errorf("%s is out of range (%d to %d)", value, least, most)
	}
	return nil
}
