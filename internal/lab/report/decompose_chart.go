package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// DifferenceChart shows the difference of each contender from the control by part. Extra cost is
// stacked to the right of zero, savings to its left, and the total is where both lead together.
func (t *Table) DifferenceChart() *chart {
	lo, hi := 0.0, 1e-3
	for i := range t.Decompositions {
		if d := &t.Decompositions[i]; d.What == "" {
			more, less := sides(d)
			lo = min(lo, less, d.TotalUs.Mid, finite(d.TotalUs.Lo))
			hi = max(hi, more, d.TotalUs.Mid, finite(d.TotalUs.Hi))
		}
	}
	room := 0.02 * (hi - lo)
	a := newAxis(lo-room, hi+room)
	c := newChart(a, "µs of CPU time per request more than the control's")
	c.Ticks = a.Ticks(tickNumber)
	c.Bands = []mark{{Class: "zero", X0: a.At(0), X1: a.At(0) + 1.5, Title: "as much as the control"}}
	for i := range t.Decompositions {
		d := &t.Decompositions[i]
		if d.What != "" {
			continue
		}
		drawDifference(c.addEntrant(d.Of.Entrant), d, a.At)
		c.Alt += differenceSentence(d) + ". "
	}
	for _, role := range sample.Roles() {
		for _, sys := range []bool{false, true} {
			p := analyze.PartDifference{Role: role, Sys: sys}
			if c.uses(partClass(&p)) {
				c.Legend = append(c.Legend, mark{Class: partClass(&p), Text: p.Name()})
			}
		}
	}
	return c
}

// tickNumber formats a number and rounds those that additions left close to zero.
func tickNumber(v float64) string {
	return strings.Replace(strconv.FormatFloat(math.Round(v*1e6)/1e6+0, 'g', 4, 64), "-", "−", 1)
}

// partClass returns the CSS class of a part.
func partClass(p *analyze.PartDifference) string { return strings.ReplaceAll(p.Name(), " ", "-") }

// sides returns the ends of both stacks.
func sides(d *analyze.Decomposition) (more, less float64) {
	for _, p := range d.Parts {
		more += max(0, p.Us.Mid)
		less += min(0, p.Us.Mid)
	}
	return more, less
}

func drawDifference(r *chartRow, d *analyze.Decomposition, at func(float64) float64) {
	more, less := 0.0, 0.0
	for i := range d.Parts {
		p := &d.Parts[i]
		from, to := more, more+p.Us.Mid
		if p.Us.Mid < 0 {
			from, to = less+p.Us.Mid, less
			less = from
		} else {
			more = to
		}
		title := fmt.Sprintf("%s, %s: %s µs", d.Of.Title, p.Name(), signed(p.Us.Mid))
		if p.Us.Known() {
			title += fmt.Sprintf(" (%.0f %% interval %s)", 100*stat.Confidence, signedInterval(p.Us))
		}
		r.Bars = append(r.Bars, mark{Class: partClass(p), X0: at(from), X1: at(to), Title: title})
	}
	end := at(max(more, d.TotalUs.Mid))
	if d.TotalUs.Known() {
		r.Lines = append(r.Lines, mark{Class: "whisker", X0: at(d.TotalUs.Lo), X1: at(d.TotalUs.Hi),
			Title: fmt.Sprintf("%s in total: %s µs", d.Of.Title, signedInterval(d.TotalUs))})
		end = max(end, at(d.TotalUs.Hi))
	}
	r.Dots = append(r.Dots, mark{Class: "total", X0: at(d.TotalUs.Mid), Title: differenceSentence(d)})
	r.Texts = append(r.Texts, mark{X0: end + 10, Text: signed(d.TotalUs.Mid) + " µs"})
}
