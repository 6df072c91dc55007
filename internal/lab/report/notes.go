package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/internal/stat"
	loadreport "github.com/tarehq/tare/load/report"
)

func (a *Report) latencyPlot(t *Table) *page.Drawing {
	var curves []loadreport.Curve
	for _, row := range t.Measured() {
		curves = append(curves, loadreport.Curve{
			Class: a.curveClass(row.Entrant), Name: row.Title, Durations: row.Latency(),
		})
	}
	return loadreport.Curves(curves...)
}

// curveColors is the number of colors. They repeat, dashed.
const curveColors = 8

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
		requests := "one request"
		if n := t.Scenario.Streams; n > 1 {
			requests = fmt.Sprintf("%d requests", n)
		}
		return fmt.Sprintf("Time from sending a request to the last byte of its response, with %s at all times on each of %d connections. "+
			"In such a closed loop latency is their number divided by the rate: it shows the length of the queue, not the time of a single request.",
			requests, t.Connections) + tail
	}
	return fmt.Sprintf("Time from when a request was due to the last byte of its response. Requests are due at %.0f per second, whether or not earlier ones have ended, "+
		"so the time that a request waits to be sent is included.", t.Rate) + tail
}

// VariationNote returns a sentence on how much ratios vary between slices and between starts. The
// figures are the medians of the rows.
func (t *Table) VariationNote() string {
	var ofSlices, ofStarts []float64
	n := 0
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Kind != sample.Control && r.Ratio.Slices > 0 {
			ofSlices, ofStarts = append(ofSlices, r.Ratio.Slices), append(ofStarts, r.Ratio.Starts)
			n = max(n, r.Ratio.SliceCount)
		}
	}
	if len(ofSlices) == 0 {
		return ""
	}
	return fmt.Sprintf("Each ratio comes from up to %d slices of load, each divided by the control's slice of the same round and corrected for the speed of the CPU. Ratios vary by %.1f %% between slices and by %.1f %% between starts (standard deviations, medians of the rows).",
		n, 100*stat.Median(ofSlices).Mid, 100*stat.Median(ofStarts).Mid)
}

// largeBody is the size in bytes above which a scenario compares bytes instead of requests.
const largeBody = 64 << 10

// ScenarioNote returns the figures that a scenario is about, contender by contender. It returns ""
// for other conditions.
func (t *Table) ScenarioNote() string {
	if t.Scenario.Name == "" {
		return ""
	}
	title, figure := t.scenarioFigure()
	var texts []string
	for _, row := range t.Measured() {
		texts = append(texts, row.Title+" "+loadreport.Count(figure(row)))
	}
	return title + ": " + strings.Join(texts, ", ") + "."
}

// scenarioFigure returns the title of the scenario's figure, and the figure of a row.
func (t *Table) scenarioFigure() (title string, figure func(*analyze.Row) float64) {
	perCPUSecond := func(row *analyze.Row) float64 { return 1e6 / row.WeightUs.Mid }
	switch s := &t.Scenario; {
	case !t.Saturated():
		return "Resident memory in KB, divided by connections",
			func(row *analyze.Row) float64 { return row.RSS / 1e3 / float64(t.Connections) }
	case s.Handshakes != "":
		return fmt.Sprintf("Connections per CPU-second, with a %s handshake and a request each", s.Handshakes), perCPUSecond
	case slices.ContainsFunc(t.Measured(), func(r *analyze.Row) bool { return r.BodyBytes >= largeBody }):
		return "MB of bodies per CPU-second",
			func(row *analyze.Row) float64 { return perCPUSecond(row) * row.BodyBytes / 1e6 }
	}
	return "Requests per CPU-second", perCPUSecond
}

// warnings returns the warnings of a table's rows, each text once.
func (t *Table) warnings() []string {
	return t.grouped(func(row *analyze.Row) []string { return row.Warnings })
}

// limits returns why contenders were measured alone, failed, or have no interval. It leaves out the
// twin and the ceiling.
func (t *Table) limits() []string {
	return t.grouped(func(row *analyze.Row) []string {
		if isAside(row.Kind) {
			return nil
		}
		return row.Limits
	})
}

// grouped returns texts of the rows, each once with the contenders that it concerns.
func (t *Table) grouped(of func(*analyze.Row) []string) (lines []string) {
	var texts []string
	titles := make(map[string][]string)
	for i := range t.Rows {
		for _, text := range of(&t.Rows[i]) {
			if titles[text] == nil {
				texts = append(texts, text)
			}
			titles[text] = append(titles[text], t.Rows[i].Title)
		}
	}
	for _, text := range texts {
		contenders := sample.List(titles[text])
		if n := len(titles[text]); n > 1 && n == len(t.Measured()) {
			contenders = "All contenders"
		}
		lines = append(lines, contenders+": "+text)
	}
	return lines
}

const manyRequests = 1000 // a rate that readers can multiply

// sharers returns the rows whose costs the report explains as shares of a core. It prefers costs at
// a fixed rate: as at a moderate rate, a contender then finds less work at once than at saturation.
func (a *Report) sharers() []*analyze.Row {
	if len(a.Tables) == 0 || a.Tables[0].Row(sample.Control) == nil {
		return nil
	}
	t := &a.Tables[0]
	if at := slices.IndexFunc(a.Tables, func(o Table) bool {
		return !o.Saturated() && o.Scenario == t.Scenario && o.Cores == t.Cores && len(o.Measured()) > 0
	}); at >= 0 {
		t = &a.Tables[at]
	}
	return slices.DeleteFunc(t.Measured(), func(row *analyze.Row) bool {
		return isAside(row.Kind) || !(row.WeightUs.Mid > 0)
	})
}

// percentOfCore returns the share of a core that manyRequests per second of a cost use.
func percentOfCore(us float64) string {
	percent, digits := 100*manyRequests*us/1e6, 2
	switch {
	case percent >= 10:
		digits = 0
	case percent >= 1:
		digits = 1
	}
	return fixed(digits, percent) + " %"
}
