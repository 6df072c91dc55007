package report

import (
	"fmt"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	loadreport "github.com/tarehq/tare/load/report"
)

// latencyPlot draws the percentile curve of each contender.
func (a *Report) latencyPlot(t *Table) *page.Plot {
	var curves []loadreport.Curve
	for _, row := range t.Measured() {
		curves = append(curves, loadreport.Curve{
			Class: a.curveClass(row.Entrant), Name: row.Title, Durations: row.Latency,
		})
	}
	return loadreport.Curves(curves...)
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
		} else if other.Kind == sample.Way || other.Kind == sample.Rival {
			n++
		}
	}
	class := fmt.Sprintf("line-%d", n%curveColors)
	if n >= curveColors {
		class += " line-again"
	}
	return class
}

// LatencyNote describes how latency is measured.
func (t *Table) LatencyNote() string {
	const tail = " Point at a curve to see it alone."
	if t.Saturated() {
		return fmt.Sprintf("Time from sending a request to the last byte of its response, with %s at all times on each of %d connections. "+
			"In such a closed loop latency is their number divided by the rate: it shows the length of the queue, not the time of a single request.",
			streamsText(t.Scenario.Streams), t.Connections) + tail
	}
	return fmt.Sprintf("Time from when a request was due to the last byte of its response. Requests are due at %.0f per second, whether or not earlier ones have ended, "+
		"so the time that a request waits to be sent is included.", t.Rate) + tail
}

func streamsText(n int) string {
	if n > 1 {
		return fmt.Sprintf("%d requests", n)
	}
	return "one request"
}
