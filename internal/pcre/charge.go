package pcre

import (
	"io"
	"time"
	"unicode/utf8"
)

const (
	// stepTime is the assumed time of a step, for converting times to steps.
	stepTime = 20 * time.Nanosecond
	// unmeasured is the number of steps up to which a match is charged its maximum. Above it, the
	// time is measured.
	unmeasured = 1 << 12
	// interruptible is the number of steps above which a match can be interrupted. That many steps
	// take some 10 ms.
	interruptible = 1 << 20
)

// charge runs a match and charges its steps. The maximum is a step for each byte and instruction.
// Usually it is far less, as the time shows.
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

// isLong reports whether a match may need so many steps that it must be interruptible.
func (l *linear) isLong(s string) bool { return (len(s)+1)*l.insts > interruptible }

// reader is the subject of an interruptible match: when the budget is used up, it returns io.EOF.
// Package regexp reads each rune once. Offsets are in bytes in any case.
type reader struct {
	s         string
	utf8      bool // returns runes, otherwise bytes
	at        int
	insts     int
	budget    int
	start     time.Time
	nextCheck int // the offset of the next check of the budget
	over      bool
}

func (l *linear) newReader(s string, utf8 bool, budget int) *reader {
	return &reader{s: s, utf8: utf8, insts: l.insts, budget: budget, start: time.Now()}
}

// ReadRune implements io.RuneReader.
func (r *reader) ReadRune() (c rune, size int, err error) {
	if r.at >= r.nextCheck {
		r.over = r.steps() >= r.budget
		r.nextCheck = r.at + 1 + unmeasured/r.insts
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

// steps returns the number of steps so far: the maximum, unless the time shows fewer.
func (r *reader) steps() int { return min((r.at+1)*r.insts, int(time.Since(r.start)/stepTime)) }

// charge subtracts the steps from the budget. It returns an error if the match was interrupted.
func (r *reader) charge(budget *int) error {
	*budget -= r.steps()
	if r.over {
		*budget = min(*budget, 0)
		return ErrBudget
	}
	return nil
}
