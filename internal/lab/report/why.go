package report

import (
	"fmt"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// counterSentence describes the outcome of a counter-experiment, as it continues the sentence of
// the cause.
func counterSentence(x *sample.CounterExperiment) string {
	if x.Failure != "" {
		return fmt.Sprintf("the counter-experiment failed: %s", x.Failure)
	}
	const with = "with a garbage collector that runs a quarter as often the difference"
	before, after := analyze.CounterDifferences(x)
	switch analyze.OutcomeOf(x) {
	case analyze.Gone:
		return fmt.Sprintf("%s disappears, from %s to %s µs", with, signed(before), signed(after))
	case analyze.Kept:
		return fmt.Sprintf("%s stays (%s, then %s µs), so the cause is another", with, signed(before), signed(after))
	}
	return fmt.Sprintf("%s shrinks from %s to %s µs", with, signed(before), signed(after))
}

// addWhy adds the causes.
func (a *Report) addWhy(d *document.Document, t *Table) {
	if len(t.Why) == 0 {
		return
	}
	var causes [][2]string
	for _, w := range t.Why {
		sentence := w.Sentence
		i := slices.IndexFunc(a.CounterExperiments, func(x sample.CounterExperiment) bool {
			return x.Contender == w.Name && x.Condition == t.Condition
		})
		if i >= 0 {
			sentence += "; " + counterSentence(&a.CounterExperiments[i])
		}
		causes = append(causes, [2]string{w.Title, upper(sentence) + "."})
	}
	d.Add(document.Heading{Level: 3, Text: fmt.Sprintf("Causes of the differences from %s", t.Row(sample.Control).Title)},
		document.Terms{Class: "why", Pairs: causes})
}
