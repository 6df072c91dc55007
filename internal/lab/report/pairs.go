package report

import (
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/stat"
)

func pairSentence(p *analyze.Pair) string {
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
		sentences[i] = pairSentence(&t.Pairs[i])
	}
	return strings.Join(sentences, "; ")
}

func (t *Table) addPairs(d *document.Document) {
	if len(t.Pairs) == 0 {
		return
	}
	shown := document.NewTable(1, []string{"part", "µs more", confidence() + "\ninterval", "times",
		confidence() + "\ninterval", "finding", "application\nalone, times", confidence() + "\ninterval", "compared"}, nil)
	for i := range t.Pairs {
		p := &t.Pairs[i]
		finding := p.Finding.String()
		shown.Add("", p.What, fixed(2, p.ExtraUs.Mid), intervalText(p.ExtraUs), times(p.Ratio.Mid), intervalText(p.Ratio),
			finding, times(p.AppRatio.Mid), intervalText(p.AppRatio), p.Of.Title+" with "+p.Than.Title)
		shown.Lines[i].Cells[5].Class = finding
	}
	shown.Heads[0].Class, shown.Heads[8].Class = "wrap", "wrap"
	d.Add(document.Heading{Level: 3, Text: "Cost of the parts"}, shown, document.Note(
		"Each line compares two contenders that differ in one part, by slices. The cost of a part is the CPU time of all processes; the application alone is without the front."))
}
