package report

import (
	"fmt"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

func metricTitle(m sample.Metric) string {
	switch m {
	case sample.CPU:
		return "CPU time per request"
	case sample.Rate:
		return "requests per second"
	case sample.P50:
		return "median latency"
	case sample.P99:
		return "latency, 99th percentile"
	}
	return "errors"
}

// percents formats a ratio as a change in percent, with its interval.
func percents(i stat.Interval) string {
	percent := func(ratio float64) string { return fmt.Sprintf("%+.1f %%", 100*(ratio-1)) }
	if !i.Known() {
		if i.Mid == finite(i.Mid) {
			return percent(i.Mid) + " (no interval)"
		}
		return "not measured"
	}
	return fmt.Sprintf("%s (%s to %s)", percent(i.Mid), percent(i.Lo), percent(i.Hi))
}

func changeText(c *analyze.Change) string {
	if c.Metric == sample.Errors {
		return fmt.Sprint(c.Count)
	}
	return percents(c.Ratio)
}

// builds returns the verdict of an experiment that compares two builds.
func (a *Report) builds(t *Table) string {
	changes := a.Changes(t.Table)
	if changes == nil {
		return "The two builds were not both measured, so they cannot be compared."
	}
	second := t.Row(sample.Build).Title
	switch cpu := changes[0].Ratio; cpu.Finding() {
	case stat.Less:
		return fmt.Sprintf("A request costs %s less CPU time with %s: %s.", percentOff(cpu.Mid), second, percents(cpu))
	case stat.More:
		return fmt.Sprintf("A request costs %s more CPU time with %s: %s.", percentOff(cpu.Mid), second, percents(cpu))
	case stat.Same:
		return fmt.Sprintf("A request costs the same CPU time with %s, within %.0f %%: %s.", second,
			100*stat.SameWithin, percents(cpu))
	default:
		return fmt.Sprintf("This run cannot tell whether a request costs more with %s: %s of CPU time.", second,
			percents(cpu))
	}
}

func percentOff(ratio float64) string { return fmt.Sprintf("%.0f %%", 100*max(ratio-1, 1-ratio)) }

func (a *Report) addBuilds(d *document.Document, t *Table) {
	changes := a.Changes(t.Table)
	if changes == nil {
		return
	}
	lines := make([][]string, len(changes))
	for i := range changes {
		lines[i] = []string{metricTitle(changes[i].Metric), changeText(&changes[i])}
	}
	d.Add(document.Heading{Level: 3, Text: fmt.Sprintf("%s, compared with %s (%s intervals):", t.Row(sample.Build).Title,
		t.Row(sample.Control).Title, confidence())}, document.NewTable(2, []string{"", "change"}, lines))
}
