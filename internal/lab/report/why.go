package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/explain"
	"github.com/tarehq/tare/internal/lab/sample"
)

// CounterSentence describes the outcome of a counter-experiment, as it continues the sentence of
// the cause.
func CounterSentence(x *sample.CounterExperiment) string {
	if x.Failure != "" {
		return fmt.Sprintf("the counter-experiment failed: %s", x.Failure)
	}
	before, after := analyze.CounterDifferences(x)
	from, to := amount(x, before), amount(x, after)
	switch analyze.OutcomeOf(x) {
	case analyze.Gone:
		return fmt.Sprintf("with %s the difference disappears, from %s to %s", x.To, from, to)
	case analyze.Kept:
		return fmt.Sprintf("with %s the difference stays (%s, then %s), so the cause is another", x.To, from, to)
	}
	return fmt.Sprintf("with %s the difference shrinks from %s to %s", x.To, from, to)
}

// amount formats a difference in the explained quantity.
func amount(x *sample.CounterExperiment, v float64) string {
	if x.Explains == string(explain.Rate) {
		return fmt.Sprintf("%+.0f requests/s", v)
	}
	sign := ""
	if v < 0 {
		sign, v = "−", -v
	}
	return sign + micros(v)
}

// counterExperimentOf returns the counter-experiment of a finding, or nil.
func (a *Report) counterExperimentOf(t *Table, w *analyze.Why, f *explain.Finding) *sample.CounterExperiment {
	i := slices.IndexFunc(a.CounterExperiments, func(x sample.CounterExperiment) bool {
		return x.Contender == w.Name && x.Condition == t.Condition && x.Cause == string(f.Cause)
	})
	if i < 0 {
		return nil
	}
	return &a.CounterExperiments[i]
}

// Sentences returns one sentence for each cause of one contender's difference.
func (a *Report) Sentences(t *Table, w *analyze.Why) (sentences []string) {
	for i := range w.Findings {
		f := &w.Findings[i]
		sentence := f.Sentence
		if x := a.counterExperimentOf(t, w, f); x != nil {
			sentence += "; " + CounterSentence(x)
		}
		sentences = append(sentences, upper(sentence)+".")
	}
	return sentences
}

// addWhy adds the causes.
func (a *Report) addWhy(d *document.Document, t *Table, isFirst bool) {
	if len(t.Why) == 0 {
		return
	}
	var causes [][2]string
	for i := range t.Why {
		causes = append(causes, [2]string{t.Why[i].Title, strings.Join(a.Sentences(t, &t.Why[i]), " ")})
	}
	d.Add(document.Heading{Level: 3, Text: fmt.Sprintf("Causes of the differences from %s", t.Row(sample.Control).Title)},
		document.Terms{Class: "why", Pairs: causes})
	if isFirst {
		d.Add(document.Note("A rule found each cause in counted figures. Its share of the difference is an estimate, unless a counter-experiment is reported."))
	}
}
