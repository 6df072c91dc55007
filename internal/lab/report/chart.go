package report

import (
	"fmt"
	"math"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
)

// Geometry of a chart of rows.
const (
	chartWidth  = 960
	chartLeft   = 190 // labels are left of it
	chartMargin = 90  // on the right, for numbers after bars
	chartRight  = chartWidth - chartMargin
	rowHeight   = 30
	barHeight   = 18
	axisHeight  = 40
)

// weightChart shows the CPU time of a request by role, and by user and system time, with a row for
// each contender. Its intervals are those of the table, of the ratios: they are as long in
// proportion to the bar.
func (t *Table) weightChart() *page.Drawing {
	perRatio := func(row *analyze.Row, ratio float64) float64 { return row.WeightUs.Mid * ratio / row.Ratio.Mid }
	most, rows := 0.0, t.Measured()
	for _, row := range rows {
		most = max(most, row.WeightUs.Mid, finite(perRatio(row, row.Ratio.Hi)))
	}
	axis := page.Axis{Max: max(most*1.02, 1e-3), From: chartLeft, To: chartRight}
	foot := float64(len(rows)) * rowHeight
	d := &page.Drawing{Class: "rows", Width: chartWidth, Height: foot + axisHeight}
	d.XTicks(axis.Ticks(page.Number), 0, foot)
	d.Text("unit", "", "µs of CPU time per request", "end", chartRight, foot+34)
	used := make(map[string]bool) // classes of bars
	for i, row := range rows {
		y := float64(i)*rowHeight + rowHeight/2
		d.Group(string(row.Kind), "", func() {
			d.Text("label", described(row.Entrant), row.Title, "end", chartLeft-12, y+4.5)
			at := 0.0
			for _, p := range row.Parts {
				for _, piece := range t.pieces(p) {
					used[piece.class] = true
					d.Rect(piece.class, fmt.Sprintf("%s: %s: %s", row.Title, piece.name, micros(piece.us)), axis.At(at),
						y-barHeight/2, axis.At(at+piece.us)-axis.At(at), barHeight)
					at += piece.us
				}
			}
			end := row.WeightUs.Mid
			if row.Ratio.Known() && row.Kind != sample.Control {
				end = perRatio(row, row.Ratio.Hi)
				d.Line("whisker", fmt.Sprintf("%s: %s times %s", row.Title, intervalText(row.Ratio),
					t.Row(sample.Control).Title), axis.At(perRatio(row, row.Ratio.Lo)), y, axis.At(end), y)
			}
			d.Text("", "", micros(row.WeightUs.Mid), "start", axis.At(end)+10, y+4.5)
		})
		d.Alt += fmt.Sprintf("%s: %s. ", row.Title, micros(row.WeightUs.Mid))
	}
	for _, role := range sample.Roles() {
		for _, piece := range t.pieces(analyze.Part{Role: role}) {
			if used[piece.class] {
				d.Legend = append(d.Legend, page.Key{Class: piece.class, Text: piece.name})
			}
		}
	}
	return d
}

// piece is a section of a bar.
type piece struct {
	class, name string
	us          float64
}

// pieces separates user and system time at saturation. At a fixed rate processors are mostly idle,
// and a trial has too few clock ticks to separate them.
func (t *Table) pieces(p analyze.Part) []piece {
	if !t.Saturated() {
		return []piece{{p.Role + "-user", p.Role, p.Us()}}
	}
	return []piece{{p.Role + "-user", p.Role + ", user", p.UserUs}, {p.Role + "-sys", p.Role + ", system", p.SysUs}}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

func finite(v float64) float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return v
}
