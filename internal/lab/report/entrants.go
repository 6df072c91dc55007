package report

import (
	"iter"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// described returns what a contender is, and its versions.
func described(e *sample.Entrant) string {
	parts := []string{e.About, strings.Join(e.Versions, ", ")}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// DistinctEntrants returns the entrants without copies of the control.
func (a *Report) DistinctEntrants() (all []*sample.Entrant) {
	for i := range a.Entrants {
		if e := &a.Entrants[i]; e.Kind != sample.Twin {
			all = append(all, e)
		}
	}
	return all
}

// addEntrants adds what the contenders are.
func (a *Report) addEntrants(d *document.Document) {
	t := document.NewTable(4, []string{"", "what it is", "versions", "protocol"}, nil)
	t.Class, t.Heads[0].Class = "who", "wrap"
	for _, e := range a.DistinctEntrants() {
		t.Add(string(e.Kind), e.Title, e.About, strings.Join(e.Versions, ", "), e.Protocol)
	}
	d.Add(document.Heading{Level: 2, Text: "Contenders", ID: "who"}, t)
}

// entrants returns the contenders of the run.
func (a *Report) entrants() iter.Seq[*sample.Entrant] {
	return func(yield func(*sample.Entrant) bool) {
		for i := range a.Entrants {
			if !yield(&a.Entrants[i]) {
				return
			}
		}
	}
}
