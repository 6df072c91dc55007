package report

import (
	"encoding/csv"
	"io"
	"slices"

	"github.com/tarehq/tare/internal/lab/equal"
)

const responsesFile = "answers.csv"

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
func (a *Analysis) Reasons() (all []Reason) {
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
	return list(titles)
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
func (a *Analysis) writeResponses(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"experiment", "contender", "what", "controls", "its",
		"declared_because"}) // the writer keeps its first error
	for i := range a.Entrants {
		e := &a.Entrants[i]
		for _, d := range e.Differences {
			_ = out.Write([]string{a.Experiment, e.Name, d.What, d.Want, d.Got, ""})
		}
		for _, d := range e.Declared {
			_ = out.Write([]string{a.Experiment, e.Name, d.What, d.Want, d.Got, d.Why})
		}
	}
	out.Flush()
	return out.Error()
}
