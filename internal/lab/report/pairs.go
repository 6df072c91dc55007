package report

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/trial"
)

// Pair is the result of a comparison under one condition.
type Pair struct {
	Comparison
	Of, Than *Row
	ExtraUs  stat.Interval // extra CPU time of a request, by slices
	Ratio    stat.Interval
	AppRatio stat.Interval // of the applications alone, without fronts
	Finding  stat.Finding
}

// pairs returns the comparisons of which both sides were measured.
func pairs(run *Run, t *Table) (all []Pair) {
	for _, c := range run.Compare {
		p := Pair{Comparison: c, Of: t.named(c.Of), Than: t.named(c.Than)}
		if p.Of == nil || p.Than == nil || p.Of.Trials == 0 || p.Than.Trials == 0 {
			continue
		}
		p.ExtraUs = analyze.Excess(p.Of.blocks, p.Than.blocks, analyze.Weight)
		p.Ratio = analyze.Weights(p.Of.blocks, p.Than.blocks, analyze.Weight).Interval
		p.AppRatio = analyze.Weights(p.Of.blocks, p.Than.blocks,
			func(s *trial.Slice) float64 { return s.WeightUs(contender.RoleApplication) }).Interval
		p.Finding = p.Ratio.Finding()
		all = append(all, p)
	}
	return all
}

// Sentence returns the result of the comparison.
func (p *Pair) Sentence() string {
	switch p.Finding {
	case stat.Less:
		return p.What + " saves " + micros(-p.ExtraUs.Mid)
	case stat.More:
		return p.What + " costs " + micros(p.ExtraUs.Mid)
	case stat.Same:
		return p.What + " makes no difference"
	}
	return "the cost of " + p.What + " is unclear in this run"
}

// pairsVerdict returns the verdict of an experiment that compares parts.
func (t *Table) pairsVerdict() string {
	sentences := make([]string, len(t.Pairs))
	for i := range t.Pairs {
		sentences[i] = t.Pairs[i].Sentence()
	}
	return strings.Join(sentences, "; ")
}

// writePairs writes the costs of parts, for a terminal.
func (t *Table) writePairs(b *strings.Builder) {
	if len(t.Pairs) == 0 {
		return
	}
	fmt.Fprintf(b, "Cost of the parts per request, and of the application alone:\n\n")
	for i := range t.Pairs {
		p := &t.Pairs[i]
		fmt.Fprintf(b, "  %s.\n    %s is %s (%s) times %s; the application alone %s (%s)\n", p.Sentence(),
			p.Of.Title, times(p.Ratio.Mid), intervalText(p.Ratio), p.Than.Title, times(p.AppRatio.Mid),
			intervalText(p.AppRatio))
	}
	b.WriteByte('\n')
}
