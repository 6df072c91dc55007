package pcre

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Regexp is a regular expression. It is safe for concurrent use.
type Regexp struct {
	names   []string
	linear  *linear // nil if package regexp has another meaning
	lineEnd bool    // linear has another meaning for subjects that end with a line end
	utf8    bool    // matches runes
	prog    []inst
	marks   int
	first   set // possible first bytes of a match
	must    bool
	at0     bool // a match begins at the beginning of the subject
}

// errNoUTF8 is the error for a subject that is not UTF-8, with (*UTF8).
var errNoUTF8 = errors.New("subject is not UTF-8")

// Compile compiles an expression. With fold, ASCII letters match in either case.
func Compile(source string, fold bool) (*Regexp, error) {
	re, err := compile(source, fold)
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression %q: %w", source, err)
	}
	return re, nil
}

func compile(source string, fold bool) (*Regexp, error) {
	for _, start := range []string{"(*UTF8)", "(*UTF)"} {
		if rest, ok := strings.CutPrefix(source, start); ok {
			return compileUTF8(rest, fold)
		}
	}
	p := &parser{text: source, options: options{fold: fold}}
	n, err := p.parse()
	if err != nil {
		return nil, err
	}
	b := &builder{}
	b.node(n)
	b.emit(inst{op: instAccept})
	if b.err != nil {
		return nil, b.err
	}
	re := &Regexp{names: p.names, prog: b.prog, marks: b.marks, at0: n.anchored()}
	re.must = n.first(&re.first)
	re.linear = newLinear(n)
	for _, i := range b.prog {
		re.lineEnd = re.lineEnd || i.op == instEndOrLine
	}
	return re, nil
}

func compileUTF8(source string, fold bool) (*Regexp, error) {
	if fold {
		source = "(?i)" + source
	}
	l := compileLinear(source)
	if l == nil {
		return nil, errors.New("with (*UTF8), only the features of package regexp are supported")
	}
	return &Regexp{names: l.re.SubexpNames(), linear: l, utf8: true}, nil
}

// Names returns the names of the groups by number, "" for those without. The first one is the whole
// match.
func (re *Regexp) Names() []string { return re.names }

// Match reports whether the subject matches, and charges the steps to the budget. It fails if the
// budget does not suffice.
func (re *Regexp) Match(s string, budget *int) (bool, error) {
	if re.linear == nil || re.lineEnd && strings.HasSuffix(s, "\n") {
		bounds, err := re.search(s, budget)
		return bounds != nil, err
	}
	if err := re.check(s); err != nil {
		return false, err
	}
	if re.linear.isLong(s) {
		r := re.linear.newReader(s, re.utf8, *budget)
		ok := re.linear.re.MatchReader(r)
		return ok, r.charge(budget)
	}
	s, _ = re.subject(s)
	ok := false
	err := re.linear.charge(s, budget, func() { ok = re.linear.re.MatchString(s) })
	return ok, err
}

// Find is like Match, but returns the bounds of the match and its groups in pairs. -1 means that a
// group has not matched. Without a match the result is nil.
func (re *Regexp) Find(s string, budget *int) ([]int, error) {
	if re.linear == nil || re.lineEnd && strings.HasSuffix(s, "\n") {
		return re.search(s, budget)
	}
	if err := re.check(s); err != nil {
		return nil, err
	}
	if re.linear.isLong(s) {
		r := re.linear.newReader(s, re.utf8, *budget)
		bounds := re.linear.re.FindReaderSubmatchIndex(r)
		if err := r.charge(budget); err != nil {
			return nil, err
		}
		return bounds, nil
	}
	of, converted := re.subject(s)
	var bounds []int
	err := re.linear.charge(of, budget, func() { bounds = re.linear.re.FindStringSubmatchIndex(of) })
	if bounds != nil && converted {
		toBytes(s, bounds)
	}
	return bounds, err
}

// check returns an error if the expression matches runes and the subject is not UTF-8.
func (re *Regexp) check(s string) error {
	if re.utf8 && !utf8.ValidString(s) {
		return errNoUTF8
	}
	return nil
}

// subject returns the string for package regexp, and whether it was converted.
func (re *Regexp) subject(s string) (of string, converted bool) {
	if re.utf8 || isASCII(s) {
		return s, false
	}
	return runes(s), true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// search runs the program at each position where a match may begin.
func (re *Regexp) search(s string, budget *int) ([]int, error) {
	m := &machine{prog: re.prog, s: s, caps: make([]int, 2*len(re.names)), marks: make([]int, re.marks), steps: *budget}
	defer func() { *budget = m.steps }()
	for at := 0; at <= len(s); at++ {
		if re.must && (at == len(s) || !re.first.has(s[at])) {
			if at%8 == 0 {
				m.steps--
			}
			continue
		}
		for i := range m.caps {
			m.caps[i] = -1
		}
		for i := range m.marks {
			m.marks[i] = -1
		}
		m.caps[0] = at
		m.stack = m.stack[:0]
		end, err := m.run(0, at)
		if err != nil {
			return nil, err
		}
		if end >= 0 {
			m.caps[1] = end
			return m.caps, nil
		}
		if re.at0 {
			break
		}
	}
	return nil, nil
}
