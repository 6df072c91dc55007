package gobench

import (
	"fmt"
	"math"
	"slices"

	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/page"
)

// Positions and sizes in a chart, in the units of its viewBox.
const (
	chartWidth = 1070
	chartLeft  = 300 // left end of the axis; labels are left of it
	chartRight = 1040
	rowHeight  = 34
	rowShift   = 9 // distance between the engines of a row
)

// Chart shows the ratios of a table: a dot and an interval for a measured ratio, a ring for a
// published one.
type Chart struct {
	Width, Height, Left, Right, Foot float64
	Alt                              string
	One                              float64 // position of the ratio 1
	Ticks                            []page.Tick
	Rows                             []ChartRow
	Legend                           []Mark
}

// ChartRow is a benchmark's line in a chart.
type ChartRow struct {
	Y     float64
	Label string
	Marks []Mark
}

// Mark is a dot or a ring, with the line of its interval.
type Mark struct {
	Class     string
	X, Lo, Hi float64 // Lo == Hi without an interval
	Y         float64
	Title     string
}

// Chart returns the chart of a table; nil if it has no ratios.
func (a *Analysis) Chart(t *Table) *Chart {
	lo, hi := t.extremes()
	if lo > hi {
		return nil
	}
	const margin = 1.15
	axis := page.Axis{
		Min: math.Min(lo, 1) / margin, Max: math.Max(hi, 1) * margin, Log: true, From: chartLeft, To: chartRight,
	}
	c := &Chart{
		Width: chartWidth, Height: float64(rowHeight*len(t.Rows) + 44), Left: chartLeft, Right: chartRight,
		Foot: float64(rowHeight * len(t.Rows)),
		Alt:  fmt.Sprintf("%s, GOMAXPROCS %d: times %s's time", t.Group.Title, t.Procs, a.Control().Title),
		One:  axis.At(1), Ticks: axis.Ticks(page.Number),
	}
	shown := slices.DeleteFunc(slices.Clone(t.Engines), func(i int) bool { return !a.compared(i) })
	for i, row := range t.Rows {
		r := ChartRow{Y: float64(rowHeight*i + rowHeight/2), Label: row.Name}
		for n, j := range shown {
			r.Marks = append(r.Marks, row.Cells[j].marks(axis, j, r.Y+rowShift*(float64(n)-float64(len(shown)-1)/2))...)
		}
		c.Rows = append(c.Rows, r)
	}
	for _, i := range shown {
		c.Legend = append(c.Legend, Mark{Class: class("here", i), Title: a.Entrants[i].Title + " here"})
		if t.isPublished(i) {
			c.Legend = append(c.Legend, Mark{Class: class("published", i), Title: a.Entrants[i].Title + " published"})
		}
	}
	return c
}

func class(kind string, engine int) string { return fmt.Sprintf("%s engine-%d", kind, engine) }

// extremes returns the lowest and the highest ratio; lo > hi if there is none.
func (t *Table) extremes() (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, row := range t.Rows {
		for i := range row.Cells {
			c := &row.Cells[i]
			all := []float64{c.Ratio.Mid, c.PublishedRatio}
			if c.Ratio.Known() {
				all = append(all, c.Ratio.Lo, c.Ratio.Hi)
			}
			for _, v := range stat.Known(all) {
				lo, hi = math.Min(lo, v), math.Max(hi, v)
			}
		}
	}
	return lo, hi
}

func (c *Cell) marks(axis page.Axis, engine int, y float64) (all []Mark) {
	if v := c.PublishedRatio; !math.IsNaN(v) {
		x := axis.At(v)
		all = append(all, Mark{
			class("published", engine), x, x, x, y, fmt.Sprintf("%s published: %s times", c.Engine.Title, times(v)),
		})
	}
	if v := c.Ratio.Mid; !math.IsNaN(v) {
		title := fmt.Sprintf("%s here: %s times", c.Engine.Title, times(v))
		m := Mark{class("here", engine), axis.At(v), axis.At(v), axis.At(v), y, title}
		if c.Ratio.Known() {
			m.Lo, m.Hi = axis.At(c.Ratio.Lo), axis.At(c.Ratio.Hi)
			m.Title += " (" + interval(c.Ratio) + ")"
		}
		all = append(all, m)
	}
	return all
}
