package report

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	loadreport "github.com/tarehq/tare/load/report"
)

// Sentences describes the curves. It reports a difference only if all trials at one value were
// below all at another, by more than stat.Margin.
func (s *sweep) Sentences() (sentences []string) {
	var unchanged []string
	for i := range s.Lines {
		line := &s.Lines[i]
		sentence := sweepSentence(line)
		if sentence == "" {
			unchanged = append(unchanged, line.Title)
			continue
		}
		sentences = append(sentences, sentence)
	}
	if len(unchanged) > 0 {
		sentences = append(sentences, "For "+sample.List(unchanged)+" no values are shown to differ.")
	}
	var swaps []string
	for i := range s.Lines {
		for j := range s.Lines {
			if from, to, ok := analyze.Swap(&s.Lines[i], &s.Lines[j]); ok {
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
func (s *sweep) failures() (all []string) {
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

// sweepSentence describes one curve. It returns "" if no difference is shown.
func sweepSentence(l *analyze.SweepLine) string {
	low, high := l.Ends(func(p *analyze.SweepPoint) analyze.Range { return p.WeightUs })
	slow, fast := l.Ends(func(p *analyze.SweepPoint) analyze.Range { return p.PerSecond })
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
