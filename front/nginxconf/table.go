package nginxconf

import (
	"fmt"
	"slices"
	"strings"
)

// support is what the translator does with a directive: "supported", "ignored" or "rejected" in the
// table.
type support int

const (
	supported support = iota
	ignored
	rejected
)

// spec is a row of directives.txt.
type spec struct {
	name     string
	contexts []string
	section  string

	arguments string   // the third column
	kind      string   // "count", or a kind of check.go
	details   []string // of the kind
	least     int
	most      int // -1 is any number

	block, blockMayBe bool
	repeats           bool

	support support
	// harmless marks a rejected directive that can be left out: it cannot decide which clients get
	// which response.
	harmless bool
	unless   []string // rejected unless its argument is one of these
	// balancer marks a load balancing method, and noBackup one that backups cannot be combined
	// with.
	balancer, noBackup bool
	remark             string
}

// table contains the rows by name, and those whose names have a star.
type table struct {
	all      []*spec
	byName   map[string][]*spec
	families []*spec
}

// newTable parses the text of directives.txt.
func newTable(text string) *table {
	t := &table{byName: make(map[string][]*spec)}
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

func (t *table) add(s *spec) {
	t.all = append(t.all, s)
	if strings.Contains(s.name, "*") {
		t.families = append(t.families, s)
	} else {
		t.byName[s.name] = append(t.byName[s.name], s)
	}
}

// find returns the row for a directive at a level. If there is none it returns the row of another
// level, and false.
func (t *table) find(name, level string) (*spec, bool) {
	specs := t.byName[name]
	for _, s := range specs {
		if s.allowed(level) {
			return s, true
		}
	}
	if specs != nil {
		return specs[0], false
	}
	for _, s := range t.families {
		head, tail, _ := strings.Cut(s.name, "*")
		if strings.HasPrefix(name, head) && strings.HasSuffix(name, tail) {
			return s, true
		}
	}
	return nil, false
}

func (s *spec) allowed(level string) bool {
	return slices.Contains(s.contexts, level) || s.contexts[0] == "any"
}

// parseSpec parses a row. Malformed rows are bugs.
func parseSpec(section, line string) *spec {
	columns := strings.Split(line+" ", " | ")
	if len(columns) != 5 {
		if columns = append(columns, ""); len(columns) != 5 {
			panic(fmt.Sprintf("nginxconf: BUG: a row of directives.txt has %d columns: %s", len(columns), line))
		}
	}
	for i := range columns {
		columns[i] = strings.TrimSuffix(strings.TrimSpace(columns[i]), " |")
	}
	s := &spec{name: columns[0], contexts: strings.Fields(columns[1]), section: section, arguments: columns[2],
		remark: columns[4]}
	s.parseArguments(columns[2])
	verdict := columns[3]
	if unless, ok := strings.CutPrefix(verdict, "rejected unless "); ok {
		s.unless, verdict = strings.Fields(unless), "rejected"
	}
	if rest, ok := strings.CutPrefix(verdict, "rejected harmless"); ok {
		s.harmless, verdict = true, "rejected"
		if unless, ok := strings.CutPrefix(rest, " unless "); ok {
			s.unless = strings.Fields(unless)
		}
	}
	if rest, ok := strings.CutPrefix(verdict, "balancer"); ok {
		s.balancer, s.noBackup, verdict = true, rest == " without backup", "supported"
	}
	i := slices.Index([]string{"supported", "ignored", "rejected"}, verdict)
	if i < 0 {
		panic(fmt.Sprintf("nginxconf: BUG: invalid support %q in a row of directives.txt: %s", verdict, line))
	}
	s.support = support(i)
	return s
}

// parseArguments parses the third column.
func (s *spec) parseArguments(text string) {
	if forms, ok := strings.CutPrefix(text, "forms "); ok {
		s.kind, s.most = "forms", -1
		if list, ok := strings.CutSuffix(forms, " *"); ok {
			forms, s.repeats = list, true
		}
		for form := range strings.SplitSeq(forms, ",") {
			s.details = append(s.details, strings.TrimSpace(form))
		}
		return
	}
	var rest []string
	for _, word := range strings.Fields(text) {
		switch word {
		case "{}":
			s.block = true
		case "{?}":
			s.blockMayBe = true
		case "*":
			s.repeats = true
		default:
			rest = append(rest, word)
		}
	}
	s.kind, s.details = rest[0], rest[1:]
	s.least, s.most = 1, 1
	switch c := s.kind[0]; {
	case c >= '0' && c <= '9':
		s.kind = "count"
		s.least, s.most = int(c-'0'), int(c-'0')
		if to, ok := strings.CutPrefix(rest[0][1:], "-"); ok {
			s.most = int(to[0] - '0')
		} else if rest[0][1:] == "+" {
			s.most = -1
		}
	case s.kind == "buffers":
		s.least, s.most = 2, 2
	case s.kind == "some":
		s.most = -1
	case s.kind == "words":
		s.most = 4
	}
}
