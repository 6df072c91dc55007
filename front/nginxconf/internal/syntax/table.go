package syntax

import (
	"fmt"
	"slices"
	"strings"
)

// Support is what the translator does with a directive: "supported", "ignored" or "rejected" in the
// table.
type Support int

const (
	Supported Support = iota
	Ignored
	Rejected
)

// Spec is a row of directives.txt.
type Spec struct {
	Name     string
	Contexts []string
	Section  string

	Kind    string   // "count", or a kind of checker.go
	Details []string // of the kind
	Least   int
	Most    int // -1 is any number

	Block, BlockMayBe bool
	Repeats           bool

	Support Support
	// Harmless marks a rejected directive that can be left out: it cannot decide which clients get
	// which response.
	Harmless bool
	Unless   []string // rejected unless its argument is one of these
	// Balancer marks a load balancing method, and NoBackup one that backups cannot be combined
	// with.
	Balancer, NoBackup bool
	Remark             string
}

// Table contains the rows by name, and those whose names have a star.
type Table struct {
	All      []*Spec
	ByName   map[string][]*Spec
	families []*Spec
}

// ParseTable parses the text of directives.txt.
func ParseTable(text string) *Table {
	t := &Table{ByName: make(map[string][]*Spec)}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "= "); ok {
			section = name
		} else if line != "" && line[0] != '#' {
			t.add(parseSpec(section, line))
		}
	}
	return t
}

func (t *Table) add(s *Spec) {
	t.All = append(t.All, s)
	if strings.Contains(s.Name, "*") {
		t.families = append(t.families, s)
	} else {
		t.ByName[s.Name] = append(t.ByName[s.Name], s)
	}
}

// Find returns the row for a directive at a level. If there is none it returns the row of another
// level, and false.
func (t *Table) Find(name, level string) (*Spec, bool) {
	specs := t.ByName[name]
	for _, s := range specs {
		if s.allowed(level) {
			return s, true
		}
	}
	if specs != nil {
		return specs[0], false
	}
	for _, s := range t.families {
		head, tail, _ := strings.Cut(s.Name, "*")
		if strings.HasPrefix(name, head) && strings.HasSuffix(name, tail) {
			return s, true
		}
	}
	return nil, false
}

func (s *Spec) allowed(level string) bool {
	return slices.Contains(s.Contexts, level) || s.Contexts[0] == "any"
}

// parseSpec parses a row. Malformed rows are bugs.
func parseSpec(section, line string) *Spec {
	columns := append(strings.SplitN(line, "|", 5), "") // the remark may be missing
	if len(columns) < 5 {
		panic("nginxconf: BUG: a row of directives.txt has too few columns: " + line)
	}
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	s := &Spec{Name: columns[0], Contexts: strings.Fields(columns[1]), Section: section, Remark: columns[4]}
	s.parseArguments(columns[2])
	verdict, unless, isConditional := strings.Cut(columns[3], " unless ")
	if isConditional {
		s.Unless = strings.Fields(unless)
	}
	switch verdict {
	case "supported":
	case "balancer", "balancer without backup":
		s.Balancer, s.NoBackup = true, verdict != "balancer"
	case "ignored":
		s.Support = Ignored
	case "rejected", "rejected harmless":
		s.Support, s.Harmless = Rejected, verdict != "rejected"
	default:
		panic(fmt.Sprintf("nginxconf: BUG: invalid support %q in a row of directives.txt: %s", verdict, line))
	}
	return s
}

// parseArguments parses the third column.
func (s *Spec) parseArguments(text string) {
	if forms, ok := strings.CutPrefix(text, "forms "); ok {
		s.Kind, s.Most = "forms", -1
		if list, ok := strings.CutSuffix(forms, " *"); ok {
			forms, s.Repeats = list, true
		}
		for form := range strings.SplitSeq(forms, ",") {
			s.Details = append(s.Details, strings.TrimSpace(form))
		}
		return
	}
	var rest []string
	for _, word := range strings.Fields(text) {
		switch word {
		case "{}":
			s.Block = true
		case "{?}":
			s.BlockMayBe = true
		case "*":
			s.Repeats = true
		default:
			rest = append(rest, word)
		}
	}
	s.Kind, s.Details = rest[0], rest[1:]
	s.Least, s.Most = 1, 1
	switch c := s.Kind[0]; {
	case c >= '0' && c <= '9':
		s.Kind = "count"
		s.Least, s.Most = int(c-'0'), int(c-'0')
		if to, ok := strings.CutPrefix(rest[0][1:], "-"); ok {
			s.Most = int(to[0] - '0')
		} else if rest[0][1:] == "+" {
			s.Most = -1
		}
	case s.Kind == "buffers":
		s.Least, s.Most = 2, 2
	case s.Kind == "some":
		s.Most = -1
	case s.Kind == "words":
		s.Most = 4
	}
}
