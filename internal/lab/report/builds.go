package report

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/trial"
)

// Measure is a figure in which two builds of an application are compared.
type Measure string

// The measures, by their names in bounds.
const (
	CPU    Measure = "cpu"    // CPU time per request of all server processes
	Rate   Measure = "rps"    // requests per second
	P50    Measure = "p50"    // median latency
	P99    Measure = "p99"    // latency that 1 % of requests exceed
	Errors Measure = "errors" // requests without a response, or with a status of 400 or above
)

// measures returns all measures in display order.
func measures() []Measure { return []Measure{CPU, Rate, P50, P99, Errors} }

// of returns the value of a trial.
func (m Measure) of(r *trial.Record) float64 {
	switch m {
	case P50:
		return r.Load.Latency.Quantile(0.5).Seconds()
	case P99:
		return r.Load.Latency.Quantile(0.99).Seconds()
	}
	return float64(r.Load.Errors.Total())
}

// compare returns the ratio of two builds, by slices if slices have the figure and otherwise by
// blocks.
func (m Measure) compare(of, than []*trial.Record) stat.Interval {
	switch m {
	case CPU:
		return analyze.Weights(of, than, analyze.Weight).Interval
	case Rate:
		return analyze.Rates(of, than).Interval
	}
	byBlock, _ := stat.Ratio(values(of, m.of), values(than, m.of))
	return byBlock
}

// title returns the name of the measure in reports.
func (m Measure) title() string {
	switch m {
	case CPU:
		return "CPU time per request"
	case Rate:
		return "requests per second"
	case P50:
		return "median latency"
	case P99:
		return "latency, 99th percentile"
	}
	return "errors"
}

// Change is the difference of the second of two builds from the first in one measure.
type Change struct {
	Measure Measure
	Ratio   stat.Interval // second to first; unset for Errors
	Count   uint64        // errors of the second build
}

// Changes returns the differences of the second build from the first under the table's condition,
// in the order of measures. It returns nil if one of the two was not measured.
func (a *Analysis) Changes(t *Table) (all []Change) {
	first, second := t.Row(Control), t.Row(Build)
	if first == nil || second == nil || first.Trials == 0 || second.Trials == 0 {
		return nil
	}
	after := perBlock(a.Run, second.Entrant, t.Condition)
	before := recordsLike(a.Run, first.Entrant, t.Condition, after)
	for _, m := range measures() {
		c := Change{Measure: m}
		if m == Errors {
			for _, r := range after {
				if r != nil {
					c.Count += r.Load.Errors.Total()
				}
			}
		} else {
			c.Ratio = m.compare(after, before)
		}
		all = append(all, c)
	}
	return all
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

// String formats the change for a reader.
func (c *Change) String() string {
	if c.Measure == Errors {
		return fmt.Sprint(c.Count)
	}
	return percents(c.Ratio)
}

// builds returns the verdict of an experiment that compares two builds.
func (a *Analysis) builds(t *Table) string {
	changes := a.Changes(t)
	if changes == nil {
		return "The two builds were not both measured, so they cannot be compared."
	}
	second := t.Row(Build).Title
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

// writeBuilds writes the differences of the second build, for a terminal.
func (a *Analysis) writeBuilds(b *strings.Builder, t *Table) {
	changes := a.Changes(t)
	if changes == nil {
		return
	}
	fmt.Fprintf(b, "%s, compared with %s (%.0f %% intervals):\n\n", t.Row(Build).Title, t.Row(Control).Title,
		100*stat.Confidence)
	for i := range changes {
		c := &changes[i]
		fmt.Fprintf(b, "  %-28s %s\n", c.Measure.title(), c)
	}
	b.WriteByte('\n')
}
