package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

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

// addResponses adds the comparison of the responses.
func (a *Report) addResponses(d *document.Document) {
	t := document.NewTable(1, []string{"", "status", "bytes", "keep-alive", "fields"}, nil)
	t.Heads[0].Class, t.Heads[4].Class = "wrap", "wrap"
	var differences []string
	for e := range a.entrants() {
		texts := []string{e.Title, "", "", "", "not requested"}
		if r := e.Response; r != nil {
			texts = []string{e.Title, strconv.Itoa(r.Status), strconv.Itoa(r.Bytes), "no",
				strings.Join(slices.Sorted(maps.Keys(r.Header)), ", ")}
			if r.KeepAlive {
				texts[3] = "yes"
			}
		}
		t.Add(string(e.Kind), texts...)
		for _, difference := range e.Differences {
			differences = append(differences, fmt.Sprintf("%s: %s", e.Title, difference))
		}
	}
	d.Add(document.Heading{Level: 2, Text: "Responses compared", ID: "equal"}, onPage(document.Note(
		"Before the load every contender received two requests on one connection. Differences of its response from the control's are listed. A contender with a difference that the experiment does not declare is left out."), t),
		document.Warnings(differences))
	reasons := a.Reasons()
	if len(reasons) > 0 {
		d.Add(document.Heading{Level: 3, Text: "Declared differences"})
	}
	for i := range reasons {
		r := &reasons[i]
		var all []string
		for _, of := range r.Of {
			for _, difference := range of.Differences {
				all = append(all, fmt.Sprintf("%s: %s", of.Title, difference))
			}
		}
		d.Add(inText(document.Items{Texts: []string{fmt.Sprintf("%s: %s, in %s", r.Why, r.Contenders(),
			sample.List(r.Aspects()))}}), onPage(document.Details{Class: "reason", Summary: r.Why + ": " + r.Contenders(),
			Blocks: []document.Block{document.Items{Texts: all}}}))
	}
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
