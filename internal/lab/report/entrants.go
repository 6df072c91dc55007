package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

const contendersFile = "contenders.csv"

// described returns what the contender is, its versions and the length of its source.
func (e *Entrant) described() string {
	parts := []string{e.About, strings.Join(e.Versions, ", ")}
	switch {
	case e.Lines == 1:
		parts = append(parts, "1 line of source")
	case e.Lines > 1:
		parts = append(parts, fmt.Sprintf("%d lines of source", e.Lines))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// DistinctEntrants returns the entrants without the twin, which equals the control.
func (a *Analysis) DistinctEntrants() (all []*Entrant) {
	for i := range a.Entrants {
		if e := &a.Entrants[i]; e.Kind != Twin {
			all = append(all, e)
		}
	}
	return all
}

// HasSourceLines reports whether any contender's lines of source are known.
func (a *Analysis) HasSourceLines() bool {
	return slices.ContainsFunc(a.Entrants, func(e Entrant) bool { return e.Lines > 0 })
}

// HasPublishedLines reports whether the write-up published any lines of source.
func (a *Analysis) HasPublishedLines() bool {
	return slices.ContainsFunc(a.Entrants, func(e Entrant) bool { return e.PublishedLines > 0 })
}

// writeEntrants writes versions and lines of source, for a terminal.
func (a *Analysis) writeEntrants(b *strings.Builder) {
	fmt.Fprint(b, "Contenders:\n\n")
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	for _, e := range a.DistinctEntrants() {
		lines := ""
		if e.Lines > 0 {
			lines = fmt.Sprintf("%d lines of source", e.Lines)
		}
		if e.PublishedLines > 0 {
			lines += fmt.Sprintf(" (the write-up's: %d)", e.PublishedLines)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", e.Title, lines, strings.Join(e.Versions, ", "))
	}
	_ = w.Flush()
	fmt.Fprintln(b)
}

// writeContenders writes the contenders, one per line.
func (a *Analysis) writeContenders(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"experiment", "contender", "title", "kind", "about", "versions", "protocol", "source_lines",
		"published_source_lines",
		"status", "bytes", "keep_alive", "left_out"}) // the writer keeps its first error
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	for i := range a.Entrants {
		e := &a.Entrants[i]
		cells := []string{a.Experiment, e.Name, e.Title, string(e.Kind), e.About, strings.Join(e.Versions, "; "),
			e.Protocol, number(e.Lines), number(e.PublishedLines)}
		if e.Response != nil {
			cells = append(cells, strconv.Itoa(e.Response.Status), strconv.Itoa(e.Response.Bytes),
				strconv.FormatBool(e.Response.KeepAlive))
		} else {
			cells = append(cells, "", "", "")
		}
		_ = out.Write(append(cells, e.Absent))
	}
	out.Flush()
	return out.Error()
}
