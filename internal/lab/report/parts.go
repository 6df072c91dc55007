package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

func signed(v float64) string {
	text := fmt.Sprintf("%.1f", math.Abs(v))
	switch {
	case text == "0.0":
		return "±0"
	case v < 0:
		return "−" + text
	}
	return "+" + text
}

// decompositions returns the differences by part.
func (t *Table) decompositions() *document.Table {
	names := t.PartNames()
	shown := document.NewTable(2, slices.Concat([]string{"", "than", "total, µs", confidence() + "\ninterval"}, names,
		[]string{"residual"}), nil)
	for i := range shown.Heads[2:] {
		shown.Heads[2+i].Class = "narrowed"
	}
	interval := func(i stat.Interval) string {
		if !i.Known() {
			return ""
		}
		return signed(i.Lo) + " to " + signed(i.Hi)
	}
	for i := range t.Decompositions {
		d := &t.Decompositions[i]
		title := d.Of.Title
		if d.What != "" {
			title = d.What + ":\n" + title
		}
		shown.Add(string(d.Of.Kind), title, d.Than.Title, signed(d.TotalUs.Mid), interval(d.TotalUs))
		line := &shown.Lines[i]
		for _, name := range names {
			cell := document.Cell{}
			if p := d.Part(name); p != nil {
				cell = document.Cell{Text: signed(p.Us.Mid), Small: interval(p.Us)}
			}
			line.Cells = append(line.Cells, cell)
		}
		line.Cells = append(line.Cells, document.Cell{Text: signed(d.ResidualUs)})
	}
	return shown
}

func pairSentence(p *analyze.Pair) string {
	switch p.Ratio.Finding() {
	case stat.Less:
		return p.What + " saves " + micros(-p.ExtraUs())
	case stat.More:
		return p.What + " costs " + micros(p.ExtraUs())
	case stat.Same:
		return p.What + " makes no difference"
	}
	return "the cost of " + p.What + " is unclear in this run"
}

func (t *Table) addPairs(d *document.Document) {
	if len(t.Pairs) == 0 {
		return
	}
	shown := document.NewTable(1, []string{"part", "µs more", "times", confidence() + "\ninterval", "finding",
		"application\nalone, times", confidence() + "\ninterval", "compared"}, nil)
	for i := range t.Pairs {
		p := &t.Pairs[i]
		finding := p.Ratio.Finding().String()
		shown.Add("", p.What, fixed(2, p.ExtraUs()), times(p.Ratio.Mid), intervalText(p.Ratio), finding,
			times(p.AppRatio.Mid), intervalText(p.AppRatio), p.Of.Title+" with "+p.Than.Title)
		shown.Lines[i].Cells[4].Class = finding
	}
	shown.Heads[0].Class, shown.Heads[7].Class = "wrap", "wrap"
	d.Add(document.Heading{Level: 3, Text: "Cost of the parts"}, shown, document.Note(
		"Each line compares two contenders that differ in one part, by slices. The cost of a part is the CPU time of all processes. The µs more are the times less one, multiplied by what the other costs. The application alone is without the front."))
}

// perCall formats a count for a table. Negligible counts are "".
func perCall(n float64) string {
	if n < 0.005 {
		return ""
	}
	return fixed(2, n)
}

// heat returns the CSS class of a cell: the higher the count, the darker.
func heat(n float64) string {
	level := 0
	for _, from := range []float64{analyze.LeastCalls, 0.5, 1.5, 3, 6} {
		if n >= from {
			level++
		}
	}
	return fmt.Sprintf("heat-%d", level)
}

// calls returns the system calls of each contender by role.
func (t *Table) calls(names []string) *document.Table {
	shown := document.NewTable(2, slices.Concat([]string{"", "role"}, names, []string{"all calls"}), nil)
	for _, row := range t.Measured() {
		for _, p := range row.Parts {
			if p.Calls == nil || row.Kind == sample.Twin {
				continue
			}
			shown.Add(string(row.Kind), row.Title, p.Role)
			line := &shown.Lines[len(shown.Lines)-1]
			for _, name := range names {
				line.Cells = append(line.Cells, document.Cell{Text: perCall(p.Calls[name]), Class: heat(p.Calls[name])})
			}
			line.Cells = append(line.Cells, document.Cell{Text: fixed(2, p.AllCalls())})
		}
	}
	return shown
}
