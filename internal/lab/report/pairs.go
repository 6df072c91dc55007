package report

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/stat"
)

// pairSentence returns the result of the comparison.
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

// writePairs writes the costs of parts.
func (t *Table) writePairs(d *document.Document) {
	if len(t.Pairs) == 0 {
		return
	}
	d.Heading("Cost of the parts per request, and of the application alone:")
	items := make([]string, len(t.Pairs))
	for i := range t.Pairs {
		p := &t.Pairs[i]
		items[i] = fmt.Sprintf("%s. %s is %s (%s) times %s; the application alone %s (%s)", pairSentence(p),
			p.Of.Title, times(p.Ratio.Mid), intervalText(p.Ratio), p.Than.Title, times(p.AppRatio.Mid),
			intervalText(p.AppRatio))
	}
	d.Items(items)
}
