package report

import (
	"fmt"

	"github.com/tarehq/tare/internal/page"
)

// Geometry of a picture of lines.
const (
	curvesLeft   = 64 // before it are the numbers of the vertical axis
	curvesTop    = 26 // above it is its unit
	curvesHeight = 300
	curvesFoot   = 42 // below it are the numbers and the unit of the horizontal axis
	nameSpace    = 26 // between the lines and the end of their names, besides the names
	leastNames   = 110
	mostNames    = 330
)

// newCurves begins a picture of a line for each of these contenders, whose names will stand at
// the lines' ends: add makes the lines, and NameLines the names when all have been.
func newCurves(x, y *page.Axis, rows []*Row) *page.Plot {
	names := float64(leastNames)
	for _, row := range rows {
		names = max(names, textWidth13(row.Title)+nameSpace)
	}
	height := max(curvesHeight, page.NamesHeight(len(rows)))
	return page.NewPlot(page.Frame{
		Width: chartWidth, Height: curvesTop + height + curvesFoot,
		Left: curvesLeft, Right: chartWidth - min(names, mostNames), Top: curvesTop, Bottom: curvesTop + height,
	}, x, y)
}

// textWidth13 is about how wide a text is in the font of a chart.
func textWidth13(text string) float64 {
	const character = 7.2
	return character * float64(len([]rune(text)))
}

// curve is the line of a contender, in the colour that it has in all pictures of lines.
func (r *Run) curve(e *Entrant, spots []page.Spot) page.Line {
	l := page.Line{Class: r.curveClass(e), Text: e.Title, Title: e.described(), Spots: spots}
	l.Follow()
	return l
}

// curveColours is how many colours there are; then they begin again, dashed.
const curveColours = 8

// curveClass names a contender's colour.
func (r *Run) curveClass(e *Entrant) string {
	if e.Kind != Way && e.Kind != Rival {
		return "line-" + string(e.Kind)
	}
	n := 0
	for i := range r.Entrants {
		if other := &r.Entrants[i]; other.Name == e.Name {
			break
		} else if other.Kind == e.Kind || other.Kind == Way || other.Kind == Rival {
			n++
		}
	}
	class := fmt.Sprintf("line-%d", n%curveColours)
	if n >= curveColours {
		class += " line-again"
	}
	return class
}
