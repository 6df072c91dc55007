package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/internal/stat"
)

// chart is a chart of rows with one horizontal axis, laid out for the template. Lengths are in
// units of its view box. Colors and fonts come from the page by class, so that a chart follows
// light and dark.
type chart struct {
	Legend []mark
	Width  float64
	Height float64
	Left   float64 // start of the axis; labels are left of it
	Right  float64
	Foot   float64 // end of the rows, start of the axis's numbers
	Unit   string
	Ticks  []page.Tick
	Bands  []mark // vertical stripes behind all rows: X0 to X1
	Rows   []chartRow
	Alt    string // text alternative

	axis page.Axis
}

// chartRow is the row of one contender.
type chartRow struct {
	Label  string
	Title  string // tooltip of the label
	Class  string
	Y      float64 // of its middle
	Top    float64 // of its bars
	Height float64 // of its bars
	Bars   []mark
	Lines  []mark
	Dots   []mark
	Texts  []mark
}

// mark is an element of a row.
type mark struct {
	Class  string
	X0, X1 float64
	Text   string
	Title  string // tooltip
}

// Width returns the length of a bar.
func (m mark) Width() float64 { return math.Max(0, m.X1-m.X0) }

// ViewBox returns the visible area: the chart's width, extended to fit its texts.
func (c *chart) ViewBox() string {
	from, to := 0.0, c.Width
	for _, row := range c.Rows {
		from = min(from, c.Left-labelGap-textWidth13(row.Label))
		for _, text := range row.Texts {
			to = max(to, text.X0+textWidth13(text.Text))
		}
	}
	return fmt.Sprintf("%.0f 0 %.0f %g", math.Floor(from), math.Ceil(to)-math.Floor(from), c.Height)
}

// labelGap is the distance between a row's label and the axis.
const labelGap = 12

// Geometry of a chart.
const (
	chartWidth  = 960
	chartLeft   = 190
	chartMargin = 90 // on the right, for numbers after bars
	rowHeight   = 30
	barHeight   = 18
	axisHeight  = 40
)

// newAxis returns the horizontal axis of a chart.
func newAxis(lo, hi float64) page.Axis {
	return page.Axis{Min: lo, Max: hi, From: chartLeft, To: chartWidth - chartMargin}
}

// newLogAxis returns a logarithmic axis.
func newLogAxis(lo, hi float64) page.Axis {
	a := newAxis(lo, hi)
	a.Log = true
	return a
}

// newChart returns a chart without rows.
func newChart(a page.Axis, unit string) *chart {
	return &chart{Width: chartWidth, Left: chartLeft, Right: chartWidth - chartMargin, Unit: unit,
		Ticks: a.Ticks(page.Number), axis: a}
}

// addEntrant adds a row for a contender.
func (c *chart) addEntrant(e *sample.Entrant) *chartRow {
	return c.addRow(e.Title, described(e), string(e.Kind))
}

// addRow adds a row. title is the tooltip of its label.
func (c *chart) addRow(label, title, class string) *chartRow {
	y := float64(len(c.Rows))*rowHeight + rowHeight/2
	c.Rows = append(c.Rows,
		chartRow{Label: label, Title: title, Class: class, Y: y, Top: y - barHeight/2, Height: barHeight})
	c.Foot = float64(len(c.Rows)) * rowHeight
	c.Height = c.Foot + axisHeight
	return &c.Rows[len(c.Rows)-1]
}

// WeightChart shows the CPU time of a request by role, and by user and system time. Its intervals
// are those of the table, of the ratios: they are as long in proportion to the bar.
func (t *Table) WeightChart() *chart {
	perRatio := func(row *analyze.Row, ratio float64) float64 { return row.WeightUs.Mid * ratio / row.Ratio.Mid }
	most := 0.0
	for i := range t.Rows {
		row := &t.Rows[i]
		most = max(most, row.WeightUs.Mid, finite(perRatio(row, row.Ratio.Hi)))
	}
	a := newAxis(0, max(most*1.02, 1e-3))
	c := newChart(a, "µs of CPU time per request")
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Trials == 0 {
			continue
		}
		r := c.addEntrant(row.Entrant)
		at := 0.0
		for _, p := range row.Parts {
			for _, piece := range t.pieces(p) {
				r.Bars = append(r.Bars, mark{
					Class: piece.class, X0: a.At(at), X1: a.At(at + piece.us),
					Title: fmt.Sprintf("%s: %s: %s", row.Title, piece.name, micros(piece.us)),
				})
				at += piece.us
			}
		}
		end := a.At(row.WeightUs.Mid)
		if row.Ratio.Known() && row.Kind != sample.Control {
			whisker := mark{
				Class: "whisker", X0: a.At(perRatio(row, row.Ratio.Lo)), X1: a.At(perRatio(row, row.Ratio.Hi)),
				Title: fmt.Sprintf("%s: %s times %s", row.Title, intervalText(row.Ratio), t.Row(sample.Control).Title),
			}
			r.Lines, end = append(r.Lines, whisker), whisker.X1
		}
		r.Texts = append(r.Texts, mark{X0: end + 8, Text: micros(row.WeightUs.Mid)})
		c.Alt += fmt.Sprintf("%s: %s. ", row.Title, micros(row.WeightUs.Mid))
	}
	for _, role := range sample.Roles() {
		for _, piece := range t.pieces(analyze.Part{Role: role}) {
			if c.uses(piece.class) {
				c.Legend = append(c.Legend, mark{Class: piece.class, Text: piece.name})
			}
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

func (c *chart) uses(class string) bool {
	return slices.ContainsFunc(c.Rows, func(r chartRow) bool {
		return slices.ContainsFunc(r.Bars, func(m mark) bool { return m.Class == class })
	})
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

func finite(v float64) float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return v
}

// RatioChart shows the ratio of each weight to the control's, with its interval and the ratios of
// the blocks.
func (t *Table) RatioChart() *chart {
	var all []float64
	for _, row := range t.Rows {
		all = append(all, row.Ratio.Lo, row.Ratio.Mid, row.Ratio.Hi)
	}
	c := newRatioChart(all, "times the control's CPU time per request")
	control := t.Row(sample.Control)
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Trials == 0 || row.Kind == sample.Control || math.IsNaN(row.Ratio.Mid) {
			continue
		}
		r := c.addEntrant(row.Entrant)
		most := row.Ratio.Mid
		for block, v := range row.BlockRatios(control) {
			if v == finite(v) {
				most = max(most, v)
				r.Dots = append(r.Dots, mark{Class: "block", X0: c.axis.At(v),
					Title: fmt.Sprintf("block %d: %.3f", block+1, v)})
			}
		}
		c.addRatio(r, row.Title, row.Ratio, most)
	}
	return c
}

// newRatioChart returns a chart without rows for ratios. It ignores unknown ones.
func newRatioChart(all []float64, unit string) *chart {
	lo, hi := 0.9, 1.1
	for _, v := range all {
		if v = finite(v); v > 0 {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	c := newChart(newLogAxis(lo*0.93, hi*1.07), unit)
	c.Bands = []mark{{Class: "same", X0: c.axis.At(1 - stat.SameWithin), X1: c.axis.At(1 + stat.SameWithin),
		Title: stat.Same.String()}}
	return c
}

// addRatio adds a ratio, its interval and its finding to a row, whose largest value so far is most.
func (c *chart) addRatio(r *chartRow, title string, ratio stat.Interval, most float64) {
	text := times(ratio.Mid)
	if ratio.Known() {
		text += "  " + ratio.Finding().String()
		most = max(most, ratio.Hi)
		r.Lines = append(r.Lines, mark{Class: "interval", X0: c.axis.At(ratio.Lo), X1: c.axis.At(ratio.Hi),
			Title: fmt.Sprintf("%s: %.3f, %.0f %% interval %.3f to %.3f", title, ratio.Mid,
				100*stat.Confidence, ratio.Lo, ratio.Hi)})
	}
	r.Dots = append(r.Dots, mark{Class: "median", X0: c.axis.At(ratio.Mid),
		Title: fmt.Sprintf("median %.3f", ratio.Mid)})
	r.Texts = append(r.Texts, mark{X0: c.axis.At(most) + 12, Text: text})
	c.Alt += fmt.Sprintf("%s: %s times (%s). ", r.Label, times(ratio.Mid), intervalText(ratio))
}
