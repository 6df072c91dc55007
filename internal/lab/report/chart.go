package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/internal/stat"
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

// band is a vertical stripe behind the rows of a chart.
type band struct {
	class, title string
	from, to     float64
}

// newAxis returns the horizontal axis of a chart.
func newAxis(lo, hi float64, isLog bool) page.Axis {
	return page.Axis{Min: lo, Max: hi, Log: isLog, From: chartLeft, To: chartRight}
}

// newChart returns a chart with space for rows.
func newChart(a page.Axis, unit string, rows int, behind band) *rowChart {
	foot := float64(rows) * rowHeight
	c := &rowChart{Drawing: &page.Drawing{Class: "rows", Width: chartWidth, Height: foot + axisHeight}, axis: a,
		used: make(map[string]bool)}
	if behind.class != "" {
		c.Rect(behind.class, behind.title, a.At(behind.from), 0, max(1.5, a.At(behind.to)-a.At(behind.from)), foot)
	}
	c.XTicks(a.Ticks(tickNumber), 0, foot)
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

func (c *rowChart) dot(class, title string, at float64) {
	c.Circle("dot "+class, title, c.axis.At(at), c.y, 5)
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

// tickNumber formats a number and rounds those that additions left close to zero.
func tickNumber(v float64) string {
	return strings.Replace(strconv.FormatFloat(math.Round(v*1e6)/1e6+0, 'g', 4, 64), "-", "−", 1)
}

// weightChart shows the CPU time of a request by role, and by user and system time. Its intervals
// are those of the table, of the ratios: they are as long in proportion to the bar.
func (t *Table) weightChart() *rowChart {
	perRatio := func(row *analyze.Row, ratio float64) float64 { return row.WeightUs.Mid * ratio / row.Ratio.Mid }
	most, rows := 0.0, t.Measured()
	for _, row := range rows {
		most = max(most, row.WeightUs.Mid, finite(perRatio(row, row.Ratio.Hi)))
	}
	c := newChart(newAxis(0, max(most*1.02, 1e-3), false), "µs of CPU time per request", len(rows), band{})
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

// ratioChart shows the ratio of each weight to the control's, with its interval and the ratios of
// the blocks; nil without a ratio.
func (t *Table) ratioChart() *rowChart {
	control, lo, hi := t.Row(sample.Control), 0.9, 1.1
	var rows []*analyze.Row
	for _, row := range t.Measured() {
		if row.Kind == sample.Control || math.IsNaN(row.Ratio.Mid) {
			continue
		}
		rows = append(rows, row)
		for _, v := range []float64{row.Ratio.Lo, row.Ratio.Mid, row.Ratio.Hi} {
			if v = finite(v); v > 0 {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	c := newChart(newAxis(lo*0.93, hi*1.07, true), "times the control's CPU time per request", len(rows),
		band{"same", stat.Same.String(), 1 - stat.SameWithin, 1 + stat.SameWithin})
	for _, row := range rows {
		c.row(row.Entrant, func() {
			most, text := row.Ratio.Mid, times(row.Ratio.Mid)
			for block, v := range row.BlockRatios(control) {
				if v == finite(v) {
					most = max(most, v)
					c.dot("block", fmt.Sprintf("block %d: %.3f", block+1, v), v)
				}
			}
			if row.Ratio.Known() {
				text += "  " + row.Finding.String()
				most = max(most, row.Ratio.Hi)
				c.span("interval", fmt.Sprintf("%s: %.3f, %s interval %.3f to %.3f", row.Title, row.Ratio.Mid, confidence(),
					row.Ratio.Lo, row.Ratio.Hi), row.Ratio.Lo, row.Ratio.Hi)
			}
			c.dot("median", fmt.Sprintf("median %.3f", row.Ratio.Mid), row.Ratio.Mid)
			c.value(text, most)
		})
		c.Alt += fmt.Sprintf("%s: %s times (%s). ", row.Title, times(row.Ratio.Mid), intervalText(row.Ratio))
	}
	return c
}

// differenceChart shows the difference of each contender from the control by part. Extra cost is
// stacked to the right of zero, savings to its left, and the total is where both lead together. It
// returns nil without differences.
func (t *Table) differenceChart() *rowChart {
	lo, hi, rows := 0.0, 1e-3, 0
	for i := range t.Decompositions {
		if d := &t.Decompositions[i]; d.What == "" {
			more, less := 0.0, 0.0
			for _, p := range d.Parts {
				more, less = more+max(0, p.Us.Mid), less+min(0, p.Us.Mid)
			}
			lo = min(lo, less, d.TotalUs.Mid, finite(d.TotalUs.Lo))
			hi = max(hi, more, d.TotalUs.Mid, finite(d.TotalUs.Hi))
			rows++
		}
	}
	if rows == 0 {
		return nil
	}
	room := 0.02 * (hi - lo)
	c := newChart(newAxis(lo-room, hi+room, false), "µs of CPU time per request more than the control's", rows,
		band{class: "zero", title: "as much as the control"})
	for i := range t.Decompositions {
		if d := &t.Decompositions[i]; d.What == "" {
			c.row(d.Of.Entrant, func() { c.drawDifference(d) })
			c.Alt += differenceSentence(d) + ". "
		}
	}
	for _, role := range sample.Roles() {
		for _, sys := range []bool{false, true} {
			p := analyze.PartDifference{Role: role, Sys: sys}
			c.explain(partClass(&p), p.Name())
		}
	}
	return c
}

// partClass returns the CSS class of a part.
func partClass(p *analyze.PartDifference) string { return strings.ReplaceAll(p.Name(), " ", "-") }

func (c *rowChart) drawDifference(d *analyze.Decomposition) {
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
			title += fmt.Sprintf(" (%s interval %s)", confidence(), signedInterval(p.Us))
		}
		c.bar(partClass(p), title, from, to)
	}
	end := max(more, d.TotalUs.Mid)
	if d.TotalUs.Known() {
		c.span("whisker", fmt.Sprintf("%s in total: %s µs", d.Of.Title, signedInterval(d.TotalUs)), d.TotalUs.Lo,
			d.TotalUs.Hi)
		end = max(end, d.TotalUs.Hi)
	}
	c.dot("total", differenceSentence(d), d.TotalUs.Mid)
	c.value(signed(d.TotalUs.Mid)+" µs", end)
}
