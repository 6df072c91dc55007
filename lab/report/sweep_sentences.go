package report

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/lab/stat"
	loadreport "github.com/tarehq/tare/load/report"
)

// Says is what the curves show, as sentences. Only what the ranges of the trials bear out is
// said: that all trials at one place were below all at another, by more than what counts as no
// difference.
func (s *SweepResult) Sentences() (sentences []string) {
	var level []string
	for i := range s.Lines {
		line := &s.Lines[i]
		said := line.sentence()
		if said == "" {
			level = append(level, line.Title)
			continue
		}
		sentences = append(sentences, said)
	}
	if len(level) > 0 {
		sentences = append(sentences, "Of "+list(level)+" no place is shown to differ from another.")
	}
	var swaps []string
	for i := range s.Lines {
		for j := range s.Lines {
			if from, to, ok := swap(&s.Lines[i], &s.Lines[j]); ok {
				swaps = append(swaps, fmt.Sprintf("%s costs less than %s with %s, and more with %s", s.Lines[i].Title, s.Lines[j].Title, from, to))
			}
		}
	}
	if len(swaps) > 0 {
		sentences = append(sentences, strings.Join(swaps, "; ")+".")
	} else if len(s.Lines) > 1 {
		sentences = append(sentences, "No pair is shown to change places.")
	}
	return append(sentences, s.failures()...)
}

// failures says what failed where.
func (s *SweepResult) failures() (all []string) {
	for i := range s.Lines {
		for _, p := range s.Lines[i].Points {
			if p.Failure != "" {
				all = append(all, fmt.Sprintf("%s failed with %s: %s.", s.Lines[i].Title, p.Label, firstLine(p.Failure)))
			}
		}
	}
	return all
}

// says is what one curve shows; "" if that is nothing.
func (l *SweepLine) sentence() string {
	low, high := l.ends(func(p *SweepPoint) Range { return p.WeightUs })
	slow, fast := l.ends(func(p *SweepPoint) Range { return p.PerSecond })
	var said []string
	if low != nil {
		said = append(said, fmt.Sprintf("a request costs from %s (with %s) to %s (with %s)", micros(low.WeightUs.Mid), low.Label, micros(high.WeightUs.Mid), high.Label))
	}
	if slow != nil {
		said = append(said, fmt.Sprintf("from %s (with %s) to %s (with %s) are served a second",
			loadreport.Count(slow.PerSecond.Mid), slow.Label, loadreport.Count(fast.PerSecond.Mid), fast.Label))
	}
	if len(said) == 0 {
		return ""
	}
	return l.Title + ": " + strings.Join(said, "; ") + "."
}

// ends are the points with the lowest and the highest median; nil if these are not shown to
// differ.
func (l *SweepLine) ends(of func(*SweepPoint) Range) (low, high *SweepPoint) {
	for i := range l.Points {
		p := &l.Points[i]
		if p.Trials < 2 { // of one trial there is no range
			continue
		}
		if low == nil || of(p).Mid < of(low).Mid {
			low = p
		}
		if high == nil || of(p).Mid > of(high).Mid {
			high = p
		}
	}
	if low == nil || !of(low).Below(of(high)) || of(high).Mid < (1+stat.Margin)*of(low).Mid {
		return nil, nil
	}
	return low, high
}

// swap returns where a is shown to cost less than b, and where more.
func swap(a, b *SweepLine) (less, more string, ok bool) {
	for i := range a.Points {
		p, q := &a.Points[i], &b.Points[i]
		if p.Trials < 2 || q.Trials < 2 {
			continue
		}
		if less == "" && p.WeightUs.Below(q.WeightUs) {
			less = p.Label
		}
		if less != "" && more == "" && q.WeightUs.Below(p.WeightUs) {
			more = p.Label
		}
	}
	return less, more, less != "" && more != ""
}
