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

// rowChart is a chart of contenders, each with a row, on one horizontal axis.
type rowChart struct {
	*page.Drawing
	axis page.Axis
	rows int
	y    float64         // the middle of the current row
	used map[string]bool // classes of bars
}

// newChart returns a chart with space for rows, whose axis begins at 0.
func newChart(most float64, unit string, rows int) *rowChart {
	a := page.Axis{Max: max(most*1.02, 1e-3), From: chartLeft, To: chartRight}
	foot := float64(rows) * rowHeight
	c := &rowChart{Drawing: &page.Drawing{Class: "rows", Width: chartWidth, Height: foot + axisHeight}, axis: a,
		used: make(map[string]bool)}
	c.XTicks(a.Ticks(page.Number), 0, foot)
	c.Text("unit", "", unit, "end", chartRight, foot+34)
	return c
}

// row adds the row of a contender, with what draw adds.
func (c *rowChart) row(e *sample.Entrant, draw func()) {
	c.y = float64(c.rows)*rowHeight + rowHeight/2
	c.rows++
	c.Group(string(e.Kind), "", func() {
		c.Text("label", described(e), e.Title, "end", chartLeft-12, c.y+4.5)
		draw()
	})
}

func (c *rowChart) bar(class, title string, from, to float64) {
	c.used[class] = true
	c.Rect(class, title, c.axis.At(from), c.y-barHeight/2, c.axis.At(to)-c.axis.At(from), barHeight)
}

func (c *rowChart) span(class, title string, from, to float64) {
	c.Line(class, title, c.axis.At(from), c.y, c.axis.At(to), c.y)
}

// value adds a text behind a place on the axis.
func (c *rowChart) value(text string, after float64) {
	c.Text("", "", text, "start", c.axis.At(after)+10, c.y+4.5)
}

// explain adds a color to the legend if a bar has it.
func (c *rowChart) explain(class, text string) {
	if c.used[class] {
		c.Legend = append(c.Legend, page.Key{Class: class, Text: text})
	}
}

// weightChart shows the CPU time of a request by role, and by user and system time. Its intervals
// are those of the table, of the ratios: they are as long in proportion to the bar.
func (t *Table) weightChart() *rowChart {
	perRatio := func(row *analyze.Row, ratio float64) float64 { return row.WeightUs.Mid * ratio / row.Ratio.Mid }
	most, rows := 0.0, t.Measured()
	for _, row := range rows {
		most = max(most, row.WeightUs.Mid, finite(perRatio(row, row.Ratio.Hi)))
	}
	c := newChart(most, "µs of CPU time per request", len(rows))
	for _, row := range rows {
		c.row(row.Entrant, func() {
			at := 0.0
			for _, p := range row.Parts {
				for _, piece := range t.pieces(p) {
					c.bar(piece.class, fmt.Sprintf("%s: %s: %s", row.Title, piece.name, micros(piece.us)), at, at+piece.us)
					at += piece.us
				}
			}
			end := row.WeightUs.Mid
			if row.Ratio.Known() && row.Kind != sample.Control {
				end = perRatio(row, row.Ratio.Hi)
				c.span("whisker", fmt.Sprintf("%s: %s times %s", row.Title, intervalText(row.Ratio),
					t.Row(sample.Control).Title), perRatio(row, row.Ratio.Lo), end)
			}
			c.value(micros(row.WeightUs.Mid), end)
		})
		c.Alt += fmt.Sprintf("%s: %s. ", row.Title, micros(row.WeightUs.Mid))
	}
	for _, role := range sample.Roles() {
		for _, piece := range t.pieces(analyze.Part{Role: role}) {
			c.explain(piece.class, piece.name)
		}
	}
	return c
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
