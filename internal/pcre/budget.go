package pcre

import (
	"errors"
	"math/bits"
	"slices"
)

// MatchLimit is the maximum number of steps of one match: PCRE's default match limit. PCRE counts
// the alternatives that it tries. A step here is an instruction of the program or a few bytes of
// the subject, and takes some 5 ns.
const MatchLimit = 10_000_000

// BudgetLimit is the maximum number of steps of all matches that share a Budget.
const BudgetLimit = 2 * MatchLimit

var (
	// ErrLimit is the error of a match that exceeds MatchLimit, or needs too much memory.
	ErrLimit = errors.New("regular expression needs too many steps")
	// ErrBudget is the error of a match that exceeds the BudgetLimit of its Budget.
	ErrBudget = errors.New("regular expressions need too many steps together")
)

// Budget is what several matches share. Its zero value is a whole budget. It is not safe for
// concurrent use.
type Budget struct {
	Used int // steps

	// An index of the last subject: a bit for each hash of three bytes in a row. With it most
	// expressions fail after a few nanoseconds, because their texts do not occur in the subject.
	subject string
	index   []uint64 // a power of 2 long; empty before the second match of the subject
	shift   int      // shifts a hash to the index of a bit

	machine *machine // of the last match, for the memory
}

// Reset makes the budget whole again, and keeps its memory unless it is large.
func (b *Budget) Reset() {
	m, index := b.machine, b.index[:0]
	*b = Budget{}
	if cap(index) <= maxKept {
		b.index = index
	}
	if m != nil && cap(m.stack) <= maxKept {
		*m = machine{caps: m.caps, marks: m.marks, stack: m.stack}
		b.machine = m
	}
}

// start returns a machine for a match.
func (b *Budget) start(re *Regexp, s string, limit int) *machine {
	if b.machine == nil {
		b.machine = new(machine)
	}
	m := b.machine
	m.re, m.prog, m.s, m.limit, m.steps = re, re.prog, s, limit, limit
	m.caps, m.marks = sized(m.caps, 2*len(re.names)), sized(m.marks, re.marks)
	m.memo, m.memoBelow = nil, 0
	if re.memoSlots > 0 {
		m.memoBelow = limit - memoAfter
	}
	return m
}

// sized returns the slice with another length. The content is undefined.
func sized(s []int, n int) []int {
	if n > cap(s) {
		return make([]int, n)
	}
	return s[:n]
}

const (
	minIndexed = 32      // shorter subjects need no index
	indexBits  = 8       // per byte of the subject
	gram       = 3       // bytes per entry
	maxKept    = 1 << 10 // elements of memory that Reset keeps
)

// mayContain reports whether the subject may contain a text of each set, in any case.
func (b *Budget) mayContain(s string, sets [][]string) bool {
	if len(s) < minIndexed || len(sets) == 0 {
		return true
	}
	if b.subject != s {
		b.subject, b.index = s, b.index[:0]
		return true // one match of a subject is not worth an index
	}
	if len(b.index) == 0 {
		b.indexSubject()
	}
	for _, texts := range sets {
		b.Used += len(texts)
		if !slices.ContainsFunc(texts, b.hasGrams) {
			return false
		}
	}
	return true
}

func (b *Budget) indexSubject() {
	b.Used += len(b.subject) / 4
	log := bits.Len(uint(len(b.subject) * indexBits / 64))
	n := 1 << log
	b.shift = 32 - 6 - log
	if cap(b.index) < n {
		b.index = make([]uint64, n)
	}
	b.index = b.index[:n]
	clear(b.index)
	var h uint32
	for i := range len(b.subject) {
		if h = h<<8 | uint32(lower(b.subject[i])); i >= gram-1 {
			at := hash(h) >> b.shift
			b.index[at>>6] |= 1 << (at & 63)
		}
	}
}

// hasGrams reports whether the subject contains each three bytes in a row of the text.
func (b *Budget) hasGrams(text string) bool {
	var h uint32
	for i := range len(text) {
		if h = h<<8 | uint32(text[i]); i >= gram-1 {
			if at := hash(h) >> b.shift; b.index[at>>6]>>(at&63)&1 == 0 {
				return false
			}
		}
	}
	return true
}

// hash returns the hash of the last three bytes. Its upper bits depend on all of them.
func hash(h uint32) uint32 { return (h << 8) * 0x9e3779b1 }
