package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Plot is a line plot. All lengths are in units of its view box.
type Plot struct {
	Frame
	X, Y  []Tick
	Unit  string // unit of the horizontal axis
	Up    string // unit of the vertical axis; empty if its labels include it
	Lines []Line
	Alt   string
}

// Frame is the size of a plot and the area of its lines.
type Frame struct {
	Width, Height            float64
	Left, Right, Top, Bottom float64
}

// Line is a line of a plot.
type Line struct {
	Class string
	Text  string // the line's name
	Path  string // SVG path data
}

// NewPlot returns an empty plot and sets the positions of its axes.
func NewPlot(f Frame, x, y *Axis) *Plot {
	x.From, x.To = f.Left, f.Right
	y.From, y.To = f.Bottom, f.Top
	return &Plot{Frame: f}
}

// HTML draws the plot.
func (p *Plot) HTML() template.HTML { return p.Drawing().HTML() }

// Drawing draws the plot.
func (p *Plot) Drawing() *Drawing {
	d := &Drawing{Class: "plot", Alt: p.Alt, Width: p.Width, Height: p.Height}
	d.Group("tick", "", func() {
		for _, t := range p.Y {
			d.Line("", "", p.Left, t.At, p.Right, t.At)
			d.Text("", "", t.Label, "end", p.Left-6, t.At+4)
		}
	})
	d.XTicks(p.X, p.Top, p.Bottom)
	d.Text("unit", "", p.Unit, "end", p.Right, p.Bottom+32)
	if p.Up != "" {
		d.Text("unit", "", p.Up, "start", p.Left-6, p.Top-10)
	}
	for i := range p.Lines {
		l := &p.Lines[i]
		d.Legend = append(d.Legend, Key{l.Class, l.Text})
		d.Group("series "+l.Class, l.Text, func() { d.Path(l.Class, "", l.Path) })
	}
	return d
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

// tickHeight is the least distance between labels of a vertical axis.
const tickHeight = 28

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
