package pcre

import (
	"io"
	"time"
	"unicode/utf8"
)

const (
	// stepTime is how long a step may take, with which time is turned into steps.
	stepTime = 20 * time.Nanosecond
	// unmeasured is the steps up to which a match is charged what it may take at most, and above which what it took.
	unmeasured = 1 << 12
	// interruptible is the steps above which a match is interrupted when it has used up its budget. It takes some 10 ms for these.
	interruptible = 1 << 20
)

// charge runs a match. At most it takes a step for each byte and instruction; usually it takes far less, which the time shows.
func (l *linear) charge(s string, budget *int, match func()) error {
	if *budget <= 0 {
		return ErrBudget
	}
	most := (len(s) + 1) * l.insts
	if most <= unmeasured {
		*budget -= min(most, len(s)+l.insts)
		match()
		return nil
	}
	start := time.Now()
	match()
	*budget -= min(most, int(time.Since(start)/stepTime))
	return nil
}

// isLong reports whether a match may take so many steps that it has to be interruptible.
func (l *linear) isLong(s string) bool { return (len(s)+1)*l.insts > interruptible }

// reader is the subject of a match that is interrupted when the budget is used up: the subject ends there. Package regexp reads
// each rune once. Offsets are those of bytes in any case.
type reader struct {
	s      string
	utf8   bool // it is read as runes, otherwise as bytes
	at     int
	insts  int
	budget int
	start  time.Time
	look   int // the offset at which the budget is checked next
	over   bool
}

func (l *linear) newReader(s string, utf8 bool, budget int) *reader {
	return &reader{s: s, utf8: utf8, insts: l.insts, budget: budget, start: time.Now()}
}

// ReadRune implements io.RuneReader.
func (r *reader) ReadRune() (c rune, size int, err error) {
	if r.at >= r.look {
		r.over = r.steps() >= r.budget
		r.look = r.at + 1 + unmeasured/r.insts
	}
	switch {
	case r.over, r.at == len(r.s):
		return 0, 0, io.EOF
	case r.utf8:
		c, size = utf8.DecodeRuneInString(r.s[r.at:])
	default:
		c, size = rune(r.s[r.at]), 1
	}
	r.at += size
	return c, size, nil
}

// steps are those that the match has taken: as many as it may have taken at most, unless the time shows that it took fewer.
func (r *reader) steps() int { return min((r.at+1)*r.insts, int(time.Since(r.start)/stepTime)) }

// charge takes the steps from the budget. It returns an error if the match was interrupted.
func (r *reader) charge(budget *int) error {
	*budget -= r.steps()
	if r.over {
		*budget = min(*budget, 0)
		return ErrBudget
	}
	return nil
}
