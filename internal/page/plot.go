package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// NewPlot returns a drawing with the axes of a line plot, in the area from x.From and y.To to x.To and
// y.From. unit is that of the horizontal axis.
func NewPlot(width, height float64, x, y Axis, xTicks, yTicks []Tick, unit string) *Drawing {
	d := &Drawing{Class: "plot", Width: width, Height: height}
	d.Group("tick", "", func() {
		for _, t := range yTicks {
			d.Line("", "", x.From, t.At, x.To, t.At)
			d.Text("", "", t.Label, "end", x.From-6, t.At+4)
		}
	})
	d.XTicks(xTicks, y.To, y.From)
	d.Text("unit", "", unit, "end", x.To, y.From+32)
	return d
}

// Series adds a line with a name from SVG path data.
func (d *Drawing) Series(class, name, data string) {
	d.Legend = append(d.Legend, Key{class, name})
	d.Group("series "+class, name, func() { d.Path(class, "", data) })
}

// Place formats a point for SVG path data.
func Place(x, y float64) string { return fmt.Sprintf("%g %g", x, y) }

// Path joins points by straight lines.
func Path(places []string) string {
	if len(places) == 0 {
		return ""
	}
	return "M" + strings.Join(places, "L")
}

const tickHeight = 28 // least distance between labels of a vertical axis

// VerticalTicks returns the ticks of a positioned vertical axis. If they do not all fit, it returns
// only powersOfTen of ten.
func VerticalTicks(y Axis, format func(float64) string) []Tick {
	all := y.Ticks(format)
	if float64(len(all)-1)*tickHeight <= math.Abs(y.From-y.To) {
		return all
	}
	powersOfTen := func(v float64) string {
		if p := math.Round(math.Log10(v)); math.Abs(v-math.Pow(10, p)) < v/1e6 {
			return format(v)
		}
		return ""
	}
	return slices.DeleteFunc(y.Ticks(powersOfTen), func(t Tick) bool { return t.Label == "" })
}
