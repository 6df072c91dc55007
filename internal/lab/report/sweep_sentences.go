package report

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/internal/lab/stat"
	loadreport "github.com/tarehq/tare/load/report"
)

// Sentences describes the curves. It reports a difference only if all trials at one value were
// below all at another, by more than stat.Margin.
func (s *SweepResult) Sentences() (sentences []string) {
	var unchanged []string
	for i := range s.Lines {
		line := &s.Lines[i]
		sentence := line.sentence()
		if sentence == "" {
			unchanged = append(unchanged, line.Title)
			continue
		}
		sentences = append(sentences, sentence)
	}
	if len(unchanged) > 0 {
		sentences = append(sentences, "For "+list(unchanged)+" no values are shown to differ.")
	}
	var swaps []string
	for i := range s.Lines {
		for j := range s.Lines {
			if from, to, ok := swap(&s.Lines[i], &s.Lines[j]); ok {
				swaps = append(swaps, fmt.Sprintf("%s costs less than %s with %s, and more with %s", s.Lines[i].Title,
					s.Lines[j].Title, from, to))
			}
		}
	}
	if len(swaps) > 0 {
		sentences = append(sentences, strings.Join(swaps, "; ")+".")
	} else if len(s.Lines) > 1 {
		sentences = append(sentences, "No pair is shown to swap places.")
	}
	return append(sentences, s.failures()...)
}

// failures returns what failed and where.
func (s *SweepResult) failures() (all []string) {
	for i := range s.Lines {
		for _, p := range s.Lines[i].Points {
			if p.Failure != "" {
				all = append(all, fmt.Sprintf("%s failed with %s: %s.", s.Lines[i].Title, p.Label,
					firstLine(p.Failure)))
			}
		}
	}
	return all
}

// sentence describes one curve. It returns "" if no difference is shown.
func (l *SweepLine) sentence() string {
	low, high := l.ends(func(p *SweepPoint) Range { return p.WeightUs })
	slow, fast := l.ends(func(p *SweepPoint) Range { return p.PerSecond })
	var parts []string
	if low != nil {
		parts = append(parts, fmt.Sprintf("a request costs from %s (with %s) to %s (with %s)",
			micros(low.WeightUs.Mid), low.Label, micros(high.WeightUs.Mid), high.Label))
	}
	if slow != nil {
		parts = append(parts, fmt.Sprintf("it serves from %s (with %s) to %s (with %s) requests/s",
			loadreport.Count(slow.PerSecond.Mid), slow.Label, loadreport.Count(fast.PerSecond.Mid), fast.Label))
	}
	if len(parts) == 0 {
		return ""
	}
	return l.Title + ": " + strings.Join(parts, "; ") + "."
}

// ends returns the points with the lowest and the highest median, or nil if they are not shown to
// differ.
func (l *SweepLine) ends(of func(*SweepPoint) Range) (low, high *SweepPoint) {
	for i := range l.Points {
		p := &l.Points[i]
		if p.Trials < 2 { // one trial has no range
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

// swap returns the values at which a is shown to cost less than b, and more.
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
