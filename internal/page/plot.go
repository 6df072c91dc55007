package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Plot is a picture of lines between two axes, laid out and ready for the template "plot". All
// lengths are in the units of its view box. Colours and fonts are the page's, by class.
type Plot struct {
	Frame
	X, Y  []Tick
	Unit  string // of the horizontal axis
	Up    string // of the vertical one; "" where its numbers have theirs
	Lines []Line
	Named bool // each line has its name at its end; or else there is a legend
	Alt   string
}

// Frame is how large a plot is, and where in it the lines may be.
type Frame struct {
	Width, Height            float64
	Left, Right, Top, Bottom float64
}

// Line is one of a plot's.
type Line struct {
	Class string
	Text  string // its name
	Title string // shown when the name is pointed at
	Path  string // as SVG has it
	Spots []Spot // from left to right, where it can be pointed at
	Name  Name   // where NameLines put its name
}

// Spot is a place on a line that says what it shows.
type Spot struct {
	X, Y   float64
	Lo, Hi float64 // where the interval's ends are; both 0 if there is none
	Title  string
}

// Name is where a line's name stands, and what leads there.
type Name struct {
	X, Y float64
	Path string
}

// NewPlot begins a plot and tells its axes where they are.
func NewPlot(f Frame, x, y *Axis) *Plot {
	x.From, x.To = f.Left, f.Right
	y.From, y.To = f.Bottom, f.Top
	return &Plot{Frame: f}
}

// Follow draws a line through its spots.
func (l *Line) Follow() {
	places := make([]string, len(l.Spots))
	for i, s := range l.Spots {
		places[i] = Place(s.X, s.Y)
	}
	l.Path = Path(places)
}

// Place is a place as a path has it.
func Place(x, y float64) string { return fmt.Sprintf("%g %g", x, y) }

// Path joins places by straight lines.
func Path(places []string) string {
	if len(places) == 0 {
		return ""
	}
	return "M" + strings.Join(places, "L")
}

const (
	nameHeight = 16 // of a line's name, with room
	nameLead   = 18 // from the frame to the names
)

// NamesHeight is how high a frame must be for the names of so many lines.
func NamesHeight(lines int) float64 { return float64(lines) * nameHeight }

// NameLines puts each line's name behind its last spot, as near as the other names allow.
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
		named[i].Name = Name{X: p.Right + nameLead, Y: y, Path: Path([]string{Place(last.X, last.Y), Place(math.Max(last.X, p.Right), last.Y), Place(p.Right+nameLead-4, y)})}
	}
}

// spread moves ascending places apart until they have a gap between them, each as little as can
// be, and as far as there is room from lo to hi.
func spread(places []float64, gap, lo, hi float64) []float64 {
	type group struct{ sum, n float64 } // of places that touch, each less what those before it need
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

// tickHeight is how far apart the numbers of a vertical axis are at least.
const tickHeight = 28

// VerticalTicks are the numbers of a vertical axis that knows where it is. Where not all have room
// powers of ten do.
func VerticalTicks(y Axis, format func(float64) string) []Tick {
	all := y.Ticks(format)
	if float64(len(all)-1)*tickHeight <= math.Abs(y.From-y.To) {
		return all
	}
	powers := func(v float64) string {
		if p := math.Round(math.Log10(v)); math.Abs(v-math.Pow(10, p)) < v/1e6 {
			return format(v)
		}
		return ""
	}
	return slices.DeleteFunc(y.Ticks(powers), func(t Tick) bool { return t.Label == "" })
}
