package report

import (
	"fmt"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load"
	loadreport "github.com/tarehq/tare/load/report"
)

func metricTitle(m sample.Metric) string {
	return map[sample.Metric]string{
		sample.CPU: "CPU time per request", sample.Rate: "requests per second", sample.P50: "median latency",
		sample.P99: "latency, 99th percentile", sample.Errors: "errors",
	}[m]
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
func (t *Table) builds() string {
	if t.Changes == nil {
		return "The two builds were not both measured, so they cannot be compared."
	}
	second := t.Row(sample.Build).Title
	cpu := t.Changes[0].Ratio
	switch finding := cpu.Finding(); finding {
	case stat.Less, stat.More:
		return fmt.Sprintf("A request costs %.0f %% %s CPU time with %s: %s.", 100*max(cpu.Mid-1, 1-cpu.Mid), finding,
			second, percents(cpu))
	case stat.Same:
		return fmt.Sprintf("A request costs the same CPU time with %s, within %.0f %%: %s.", second,
			100*stat.SameWithin, percents(cpu))
	default:
		return fmt.Sprintf("This run cannot tell whether a request costs more with %s: %s of CPU time.", second,
			percents(cpu))
	}
}

func (t *Table) addBuilds(d *document.Document) {
	if t.Changes == nil {
		return
	}
	lines := make([][]string, len(t.Changes))
	for i := range t.Changes {
		lines[i] = []string{metricTitle(t.Changes[i].Metric), changeText(&t.Changes[i])}
	}
	d.Add(document.Heading{Level: 3, Text: fmt.Sprintf("%s, compared with %s (%s intervals):", t.Row(sample.Build).Title,
		t.Row(sample.Control).Title, confidence())}, document.NewTable(2, []string{"", "change"}, lines))
}

// CheckBounds returns an error if trials of so many blocks cannot decide a bound of the change from
// the first build to the second. Latencies are compared at a fixed rate only: at saturation they are
// the length of the queue.
func CheckBounds(g load.Goal, blocks int, atRate bool) error {
	for _, b := range g.Bounds {
		m := sample.Metric(b.Name())
		switch {
		case !slices.Contains(sample.Metrics(), m):
			return fmt.Errorf("%s: %s is not compared: want one of %v", b, m, sample.Metrics())
		case m.Latency() && !atRate:
			return fmt.Errorf("%s: latencies are compared at a fixed rate, which is not set", b)
		case m != sample.Errors && blocks < stat.FewestStarts:
			return fmt.Errorf("%s: %s have no interval: want %d or more", b, loadreport.Plural(blocks, "block"),
				stat.FewestStarts)
		}
	}
	return g.CheckRelative()
}

// Judgment is the result of a bound under one condition.
type Judgment struct {
	Outcome stat.Outcome
	Text    string // a line for the reader
}

// Judge compares the two builds with each bound under each condition, and latencies at fixed rates
// only. A bound without a comparison is undecided.
func (a *Report) Judge(g load.Goal) (all []Judgment) {
	for _, b := range g.Bounds {
		before, m := len(all), sample.Metric(b.Name())
		for i := range a.Tables {
			t := &a.Tables[i]
			for _, c := range t.Changes {
				if c.Metric == m && (!t.Saturated() || !m.Latency()) {
					o := outcome(b, &c)
					all = append(all, Judgment{o, fmt.Sprintf("%s: %s: %s: %s, with %s", b, o,
						metricTitle(m), changeText(&c), t.Text())})
				}
			}
		}
		if len(all) == before {
			all = append(all, Judgment{stat.Undecided, fmt.Sprintf("%s: %s: %s: the two builds were not both measured", b,
				stat.Undecided, metricTitle(m))})
		}
	}
	return all
}

func outcome(b load.Bound, c *analyze.Change) stat.Outcome {
	if c.Metric == sample.Errors {
		return stat.OutcomeOf(b.Holds(c.ErrorShare))
	}
	return c.Ratio.Against(1+b.Limit, b.Figure == load.Rate)
}
