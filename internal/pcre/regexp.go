package pcre

import (
	"fmt"
	"slices"
	"strings"
)

// Regexp is a regular expression. It is safe for concurrent use.
type Regexp struct {
	names     []string
	prog      []inst
	marks     int
	memoSlots int        // states whose failures a match may remember, by position; 0 if it may not
	first     set        // possible first bytes of a match
	must      bool       // a match begins with one of them
	starts    *trie      // texts that a match begins with one of; nil if unknown
	required  [][]string // sets of texts: a match contains one of each
	at0       bool       // a match begins at the beginning of the subject
	atLine    bool       // a match begins at the beginning of a line
}

// Compile compiles an expression. With fold, ASCII letters match in either case.
func Compile(source string, fold bool) (*Regexp, error) {
	re, err := compile(source, fold)
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression %q: %w", source, err)
	}
	return re, nil
}

func compile(source string, fold bool) (*Regexp, error) {
	p := &parser{text: source, options: options{fold: fold}}
	n, err := p.parse()
	if err != nil {
		return nil, err
	}
	b := &builder{tries: make(map[*node]*trie)}
	b.node(n)
	b.emit(inst{op: instAccept})
	if b.err != nil {
		return nil, b.err
	}
	re := &Regexp{names: p.names, prog: b.prog, marks: b.marks, at0: n.anchored(), required: n.required()}
	re.must = n.first(&re.first)
	if !n.has(opRef) {
		re.atLine = n.startsLine()
		if b.marks <= maxMemoMarks {
			re.memoSlots = b.memoSlots << b.marks
		}
	}
	if !re.at0 && !re.atLine {
		texts, _ := n.prefixes()
		re.starts = newTrie([][]string{texts})
	}
	return re, nil
}

// Names returns the names of the groups by number, "" for those without. The first one is the whole
// match.
func (re *Regexp) Names() []string { return re.names }

// Match reports whether the subject matches, and charges the steps to the budget. It fails with
// ErrLimit or ErrBudget.
func (re *Regexp) Match(s string, budget *Budget) (bool, error) {
	return re.search(s, budget, nil)
}

// Find is like Match, but returns the bounds of the match and its groups in pairs. -1 means that a
// group has not matched. Without a match the result is nil.
func (re *Regexp) Find(s string, budget *Budget) (bounds []int, err error) {
	_, err = re.search(s, budget, &bounds)
	return bounds, err
}

// search searches the subject for a match, and sets bounds unless it is nil.
func (re *Regexp) search(s string, budget *Budget, bounds *[]int) (bool, error) {
	if re.at0 && re.must && (s == "" || !re.first.has(s[0])) || !budget.mayContain(s, re.required) {
		return false, nil
	}
	left := BudgetLimit - budget.Used
	if left <= 0 {
		return false, ErrBudget
	}
	m := budget.start(re, s, min(left, MatchLimit))
	found, err := m.search()
	if budget.Used += m.limit - max(m.steps, 0); err != nil && m.limit < MatchLimit {
		err = ErrBudget
	}
	if found && bounds != nil {
		*bounds = slices.Clone(m.caps)
	}
	return found, err
}

// search runs the program at each position where a match may begin.
func (m *machine) search() (bool, error) {
	for at := 0; at <= len(m.s); at++ {
		from := at
		at = m.re.next(m.s, at)
		if m.steps -= at - from; at > len(m.s) {
			break
		}
		fill(m.caps)
		fill(m.marks)
		m.caps[0] = at
		m.stack = m.stack[:0]
		end, err := m.run(0, at)
		if err != nil {
			return false, err
		}
		if end >= 0 {
			m.caps[1] = end
			return true, nil
		}
		if m.re.at0 {
			break
		}
	}
	return false, nil
}

func fill(all []int) {
	for i := range all {
		all[i] = -1
	}
}

// next returns the next position where a match may begin; after the end of the subject there is
// none.
func (re *Regexp) next(s string, at int) int {
	switch {
	case re.at0:
	case re.atLine:
		if at > 0 && s[at-1] != '\n' {
			n := strings.IndexByte(s[at:], '\n')
			if n < 0 {
				return len(s) + 1
			}
			at += n + 1
		}
	case re.starts != nil:
		for at < len(s) && (!re.first.has(s[at]) || !re.starts.begins(s, at)) {
			at++
		}
	case re.must:
		for at < len(s) && !re.first.has(s[at]) {
			at++
		}
	}
	if at == len(s) && re.must {
		return at + 1
	}
	return at
}
