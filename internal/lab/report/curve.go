package report

import (
	"fmt"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
)

// Geometry of a line plot.
const (
	curvesLeft   = 64 // space for the numbers of the vertical axis
	curvesTop    = 26 // space for its unit
	curvesHeight = 300
	curvesFoot   = 42 // space for the numbers and the unit of the horizontal axis
	nameSpace    = 26 // space beside the names
	leastNames   = 110
	mostNames    = 330
)

// newCurves returns a plot with space for a line of each contender and its name at the line's end.
// The caller adds the lines, and then calls NameLines.
func newCurves(x, y *page.Axis, rows []*analyze.Row) *page.Plot {
	names := float64(leastNames)
	for _, row := range rows {
		names = max(names, page.TextWidth(row.Title)+nameSpace)
	}
	height := max(curvesHeight, page.NamesHeight(len(rows)))
	return page.NewPlot(page.Frame{
		Width: chartWidth, Height: curvesTop + height + curvesFoot,
		Left: curvesLeft, Right: chartWidth - min(names, mostNames), Top: curvesTop, Bottom: curvesTop + height,
	}, x, y)
}

// curveColors is the number of colors. They repeat, dashed.
const curveColors = 8

// curveClass returns the CSS class of a contender's color.
func (a *Report) curveClass(e *sample.Entrant) string {
	if e.Kind != sample.Way && e.Kind != sample.Rival {
		return "line-" + string(e.Kind)
	}
	n := 0
	for i := range a.Entrants {
		if other := &a.Entrants[i]; other.Name == e.Name {
			break
		} else if other.Kind == e.Kind || other.Kind == sample.Way || other.Kind == sample.Rival {
			n++
		}
	}
	class := fmt.Sprintf("line-%d", n%curveColors)
	if n >= curveColors {
		class += " line-again"
	}
	return class
}
