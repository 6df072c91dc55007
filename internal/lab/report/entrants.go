package report

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
)

const contendersFile = "contenders.csv"

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

// writeContenders writes the contenders, one per line.
func (a *Report) writeContenders(w io.Writer) error {
	type entrant = *sample.Entrant
	unlessZero := func(name string, of func(entrant) int) document.Column[entrant] {
		return document.Text(name, func(e entrant) string {
			if of(e) == 0 {
				return ""
			}
			return strconv.Itoa(of(e))
		})
	}
	responded := func(name string, of func(*equal.Response) any) document.Column[entrant] {
		return document.Text(name, func(e entrant) string {
			if e.Response == nil {
				return ""
			}
			return fmt.Sprint(of(e.Response))
		})
	}
	return document.WriteCSV(w, []document.Column[entrant]{
		document.Text("experiment", func(entrant) string { return a.Experiment }),
		document.Text("contender", func(e entrant) string { return e.Name }),
		document.Text("title", func(e entrant) string { return e.Title }),
		document.Text("kind", func(e entrant) string { return string(e.Kind) }),
		document.Text("about", func(e entrant) string { return e.About }),
		document.Text("versions", func(e entrant) string { return strings.Join(e.Versions, "; ") }),
		document.Text("protocol", func(e entrant) string { return e.Protocol }),
		unlessZero("source_lines", func(e entrant) int { return e.Lines }),
		responded("status", func(r *equal.Response) any { return r.Status }),
		responded("bytes", func(r *equal.Response) any { return r.Bytes }),
		responded("keep_alive", func(r *equal.Response) any { return r.KeepAlive }),
		document.Text("left_out", func(e entrant) string { return e.Absent }),
	}, a.entrants())
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
