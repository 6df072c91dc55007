package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	loadreport "github.com/tarehq/tare/load/report"
)

// largeBody is the size in bytes from which on a scenario is about bytes rather than requests.
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
