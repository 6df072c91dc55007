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
	Named bool // lines have their names at their ends; otherwise there is a legend
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
	Title string // tooltip of the name
	Path  string // SVG path data
	Spots []Spot // points with tooltips, from left to right
	Name  Name   // position of the name, set by NameLines
}

// Spot is a point on a line with a tooltip.
type Spot struct {
	X, Y  float64
	Title string
}

// Name is the position of a line's name, and the path that leads to it.
type Name struct {
	X, Y float64
	Path string
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
		if !p.Named {
			d.Legend = append(d.Legend, Key{l.Class, l.Text})
		}
		d.Group("series "+l.Class, "", func() { p.draw(d, l) })
	}
	return d
}

// draw draws a line, its spots and its name.
func (p *Plot) draw(d *Drawing, l *Line) {
	d.Path(l.Class, "", l.Path)
	for _, s := range l.Spots {
		d.Group("spot", s.Title, func() {
			d.Circle("hit", "", s.X, s.Y, 9)
			d.Circle("at", "", s.X, s.Y, 2.6)
		})
	}
	if p.Named {
		d.Path("lead", "", l.Name.Path)
		d.Text("name", l.Title, l.Text, "start", l.Name.X, l.Name.Y+4.5)
	}
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

const (
	nameHeight = 16 // height of a line's name, with spacing
	nameLead   = 18 // distance from the frame to the names
)

// NamesHeight returns the height that a frame needs for the names of some lines.
func NamesHeight(lines int) float64 { return float64(lines) * nameHeight }

// NameLines places each line's name beside its last spot, as near as the other names allow.
func (p *Plot) NameLines() {
	p.Named = true
	var named []*Line
	for i := range p.Lines {
		if len(p.Lines[i].Spots) > 0 {
			named = append(named, &p.Lines[i])
		}
	}
	end := func(l *Line) Spot { return l.Spots[len(l.Spots)-1] }
	slices.SortStableFunc(named, func(a, b *Line) int { return int(math.Copysign(1, end(a).Y-end(b).Y)) })
	wanted := make([]float64, len(named))
	for i, l := range named {
		wanted[i] = end(l).Y
	}
	for i, y := range spread(wanted, nameHeight, p.Top, p.Bottom) {
		last := end(named[i])
		y = math.Round(10*y) / 10
		named[i].Name = Name{X: p.Right + nameLead, Y: y,
			Path: Path([]string{Place(last.X, last.Y), Place(math.Max(last.X, p.Right), last.Y),
				Place(p.Right+nameLead-4, y)})}
	}
}

// spread moves ascending positions apart until they have a gap between them. It moves each as
// little as possible and keeps them within lo and hi if there is room.
func spread(places []float64, gap, lo, hi float64) []float64 {
	type group struct{ sum, n float64 } // of touching positions, each reduced by the gaps before it
	var groups []group
	for i, place := range places {
		groups = append(groups, group{place - float64(i)*gap, 1})
		for n := len(groups); n > 1 && groups[n-2].sum/groups[n-2].n > groups[n-1].sum/groups[n-1].n; n-- {
			groups[n-2] = group{groups[n-2].sum + groups[n-1].sum, groups[n-2].n + groups[n-1].n}
			groups = groups[:n-1]
		}
	}
	most := hi - float64(len(places)-1)*gap
	all := make([]float64, 0, len(places))
	for _, g := range groups {
		for range int(g.n) {
			all = append(all, math.Max(lo, math.Min(most, g.sum/g.n))+float64(len(all))*gap)
		}
	}
	return all
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
