package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// reason is an explanation of declared differences.
type reason struct {
	why         string
	titles      []string // of the contenders that it concerns
	differences []string
}

func (a *Report) reasons() (all []*reason) {
	for _, e := range a.Entrants {
		for _, d := range e.Declared {
			at := slices.IndexFunc(all, func(r *reason) bool { return r.why == d.Why })
			if at < 0 {
				at = len(all)
				all = append(all, &reason{why: d.Why})
			}
			r := all[at]
			if !slices.Contains(r.titles, e.Title) {
				r.titles = append(r.titles, e.Title)
			}
			r.differences = append(r.differences, fmt.Sprintf("%s: %s", e.Title, d.Difference))
		}
	}
	return all
}

func (a *Report) addResponses(d *document.Document) {
	t := document.NewTable(1, []string{"", "status", "bytes", "keep-alive", "fields"}, nil)
	t.Heads[0].Class, t.Heads[4].Class = "wrap", "wrap"
	var differences []string
	for _, e := range a.Entrants {
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
	d.Add(document.Heading{Level: 2, Text: "Responses compared", ID: "equal"}, document.Note(
		"Before the load every contender received two requests on one connection. Differences of its response from the control's are listed. A contender with a difference that the experiment does not declare is left out."),
		t, document.Warnings(differences))
	for i, r := range a.reasons() {
		if i == 0 {
			d.Add(document.Heading{Level: 3, Text: "Declared differences"})
		}
		d.Add(document.Details{Class: "reason", Summary: r.why + ": " + sample.List(r.titles),
			Blocks: []document.Block{document.Items{Texts: r.differences}}})
	}
}

func described(e *sample.Entrant) string {
	parts := []string{e.About, strings.Join(e.Versions, ", ")}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

func (a *Report) addEntrants(d *document.Document) {
	t := document.NewTable(4, []string{"", "what it is", "versions", "protocol"}, nil)
	t.Class, t.Heads[0].Class = "who", "wrap"
	for _, e := range a.Entrants {
		if e.Kind != sample.Twin {
			t.Add(string(e.Kind), e.Title, e.About, strings.Join(e.Versions, ", "), e.Protocol)
		}
	}
	d.Add(document.Heading{Level: 2, Text: "Contenders", ID: "who"}, t)
}
