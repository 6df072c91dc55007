package report

import (
	"io"
	"slices"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
)

const responsesFile = "responses.csv"

// Reason is a declared reason for differences of responses, with the contenders that it concerns.
type Reason struct {
	Why string
	Of  []Deviation
}

// Deviation is how a contender's response differs from the control's.
type Deviation struct {
	Title       string
	Differences []equal.Difference
}

// Reasons returns the declared differences, grouped by reason. The twin's are the control's.
func (a *Report) Reasons() (all []Reason) {
	for i := range a.Entrants {
		e := &a.Entrants[i]
		for _, d := range e.Declared {
			at := slices.IndexFunc(all, func(r Reason) bool { return r.Why == d.Why })
			if at < 0 {
				at = len(all)
				all = append(all, Reason{Why: d.Why})
			}
			all[at].add(e.Title, d.Difference)
		}
	}
	return all
}

func (r *Reason) add(title string, d equal.Difference) {
	if n := len(r.Of); n == 0 || r.Of[n-1].Title != title {
		r.Of = append(r.Of, Deviation{Title: title})
	}
	last := &r.Of[len(r.Of)-1]
	last.Differences = append(last.Differences, d)
}

// Contenders returns the titles of the contenders that the reason concerns.
func (r *Reason) Contenders() string {
	titles := make([]string, len(r.Of))
	for i := range r.Of {
		titles[i] = r.Of[i].Title
	}
	return sample.List(titles)
}

// Aspects returns what differs, such as "status" or "field Server".
func (r *Reason) Aspects() (aspects []string) {
	for i := range r.Of {
		for _, d := range r.Of[i].Differences {
			if !slices.Contains(aspects, d.What) {
				aspects = append(aspects, d.What)
			}
		}
	}
	return aspects
}

// writeResponses writes the differences of all responses, one per line.
func (a *Report) writeResponses(w io.Writer) error {
	type line struct {
		contender string
		sample.DeclaredDifference
	}
	var lines []line
	for e := range a.entrants() {
		for _, d := range e.Differences {
			lines = append(lines, line{e.Name, sample.DeclaredDifference{Difference: d}})
		}
		for _, d := range e.Declared {
			lines = append(lines, line{e.Name, d})
		}
	}
	return document.WriteCSV(w, []document.Column[line]{
		document.Text("experiment", func(line) string { return a.Experiment }),
		document.Text("contender", func(l line) string { return l.contender }),
		document.Text("what", func(l line) string { return l.What }),
		document.Text("controls", func(l line) string { return l.Want }),
		document.Text("its", func(l line) string { return l.Got }),
		document.Text("declared_because", func(l line) string { return l.Why }),
	}, slices.Values(lines))
}
