package report

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// described returns what a contender is, its versions and the length of its source.
func described(e *sample.Entrant) string {
	parts := []string{e.About, strings.Join(e.Versions, ", ")}
	switch {
	case e.Lines == 1:
		parts = append(parts, "1 line of source")
	case e.Lines > 1:
		parts = append(parts, fmt.Sprintf("%d lines of source", e.Lines))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// DistinctEntrants returns the entrants without copies of the control.
func (a *Report) DistinctEntrants() (all []*sample.Entrant) {
	for i := range a.Entrants {
		if e := &a.Entrants[i]; !e.Kind.IsCopy() {
			all = append(all, e)
		}
	}
	return all
}

// addEntrants adds what the contenders are.
func (a *Report) addEntrants(d *document.Document) {
	t := document.NewTable(4, []string{"", "what it is", "versions", "protocol"}, nil)
	t.Class, t.Heads[0].Class = "who", "wrap"
	all := a.DistinctEntrants()
	hasLines := slices.ContainsFunc(all, func(e *sample.Entrant) bool { return e.Lines > 0 })
	if hasLines {
		t.Heads = append(t.Heads, document.Head{Text: "lines of its application", Class: "narrowed"})
	}
	for _, e := range all {
		texts := []string{e.Title, e.About, strings.Join(e.Versions, ", "), e.Protocol}
		switch {
		case e.Lines > 0:
			texts = append(texts, strconv.Itoa(e.Lines))
		case hasLines:
			texts = append(texts, "–")
		}
		t.Add(string(e.Kind), texts...)
	}
	d.Add(document.Heading{Level: 2, Text: "Contenders", ID: "who"}, t)
	if hasLines {
		d.Add(document.Note("Lines of source are those of the application, without comments and empty lines. A dash stands for a program that is configured, not written."))
	}
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
