package report

import (
	"fmt"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// rowLine is a line of a condition's table, or of all tables.
type rowLine = *analyze.Row

func (t *Table) lines() (lines []rowLine) {
	for i := range t.Rows {
		lines = append(lines, &t.Rows[i])
	}
	return lines
}

// resultColumns returns the columns of a condition's table. Names of times end in their unit.
func (a *Report) resultColumns() []document.Column[rowLine] {
	weight := document.Interval("weight_us", func(l rowLine) stat.Interval { return l.WeightUs })
	weight[0] = weight[0].For("µs/request", func(l rowLine) string {
		if l.Trials == 0 {
			return "failed"
		}
		return fixed(2, l.WeightUs.Mid)
	}).InBrief()
	ratio := document.Interval("ratio", func(l rowLine) stat.Interval { return l.Ratio.Interval })
	ratio[0] = ratio[0].For("times", unlessFailed(func(l rowLine) string { return ratioText(l) })).InBrief()
	ratio[1] = ratio[1].For(confidence()+"\ninterval",
		unlessControl(func(l rowLine) string { return intervalText(l.Ratio.Interval) })).InBrief()
	finding := document.Text("finding", func(l rowLine) string { return l.Ratio.Finding().String() }).
		For("finding", unlessControl(func(l rowLine) string {
			if !l.Ratio.Known() {
				return ""
			}
			return l.Ratio.Finding().String()
		}))
	finding.Class = func(l rowLine) string { return finding.Text(l) }
	all := []document.Column[rowLine]{
		document.Text("experiment", func(rowLine) string { return a.Experiment }),
		document.Count("cores", func(l rowLine) int { return l.Cores }),
		document.Count("connections", func(l rowLine) int { return l.Connections }),
		document.Text("rate_per_sec", func(l rowLine) string {
			if l.Saturated() {
				return ""
			}
			return document.Number(l.Rate)
		}),
		document.Text("scenario", func(l rowLine) string { return l.Scenario.Name }),
		document.Text("contender", func(l rowLine) string { return l.Name }).
			For("", func(l rowLine) string { return l.Title }).InBrief(),
		document.Text("kind", func(l rowLine) string { return string(l.Kind) }),
		document.Count("trials", func(l rowLine) int { return l.Trials }),
	}
	all = slices.Concat(all, weight, splitColumns(), ratio, []document.Column[rowLine]{finding,
		document.Count("slices", func(l rowLine) int { return l.Ratio.SliceCount }),
		document.Figure("slice_spread", func(l rowLine) float64 { return l.Ratio.Slices }),
		document.Figure("start_spread", func(l rowLine) float64 { return l.Ratio.Starts })})
	for _, role := range sample.Roles() {
		all = append(all,
			document.Figure(role+"_user_us", func(l rowLine) float64 { return l.Part(role).UserUs }),
			document.Figure(role+"_sys_us", func(l rowLine) float64 { return l.Part(role).SysUs }))
	}
	return slices.Concat(all, loadColumns(), processColumns(), []document.Column[rowLine]{
		document.Count("gomaxprocs", func(l rowLine) int { return l.Procs }),
	})
}

// splitColumns returns the columns of user and system time, which are empty where they are not
// separated.
func splitColumns() []document.Column[rowLine] {
	part := func(of func(analyze.Part) float64) func(rowLine) string {
		return unlessFailed(func(l rowLine) (text string) {
			if !l.Saturated() {
				return ""
			}
			sum := 0.0
			for _, p := range l.Parts {
				sum += of(p)
			}
			return fixed(2, sum)
		})
	}
	return []document.Column[rowLine]{
		document.Column[rowLine]{}.For("user", part(func(p analyze.Part) float64 { return p.UserUs })),
		document.Column[rowLine]{}.For("sys", part(func(p analyze.Part) float64 { return p.SysUs })),
	}
}

func loadColumns() []document.Column[rowLine] {
	all := []document.Column[rowLine]{
		document.Figure("requests_per_sec", func(l rowLine) float64 { return l.PerSecond.Mid }).
			For("requests/s", unlessFailed(func(l rowLine) string { return fixed(0, l.PerSecond.Mid) })).InBrief(),
	}
	quantile := func(name string, share float64) document.Column[rowLine] {
		return document.Figure(name, func(l rowLine) float64 { return ms(l.Latency().Quantile(share)) })
	}
	shown := func(share float64) func(rowLine) string {
		return unlessFailed(func(l rowLine) string { return fixed(2, ms(l.Latency().Quantile(share))) + "ms" })
	}
	return append(all, quantile("p50_ms", 0.5).For("p50", shown(0.5)), quantile("p90_ms", 0.9),
		quantile("p99_ms", 0.99).For("p99", shown(0.99)).InBrief(), quantile("p999_ms", 0.999), quantile("max_ms", 1))
}

func processColumns() []document.Column[rowLine] {
	return []document.Column[rowLine]{
		document.Figure("voluntary_switches_per_request", func(l rowLine) float64 { return l.Voluntary }),
		document.Figure("involuntary_switches_per_request", func(l rowLine) float64 { return l.Involuntary }),
		document.Column[rowLine]{}.For("switches",
			unlessFailed(func(l rowLine) string { return fixed(2, l.Voluntary+l.Involuntary) })),
		document.Figure("rss_bytes", func(l rowLine) float64 { return l.RSS }).
			For("MB", unlessFailed(func(l rowLine) string { return fixed(0, l.RSS/1e6) })),
	}
}

// unlessFailed returns "" for a contender without a successful trial.
func unlessFailed(text func(rowLine) string) func(rowLine) string {
	return func(l rowLine) string {
		if l.Trials == 0 {
			return ""
		}
		return text(l)
	}
}

// unlessControl returns "" for the control, too.
func unlessControl(text func(rowLine) string) func(rowLine) string {
	return unlessFailed(func(l rowLine) string {
		if l.Kind == sample.Control {
			return ""
		}
		return text(l)
	})
}

func ratioText(row *analyze.Row) string {
	if row.Kind == sample.Control {
		return "1"
	}
	return times(row.Ratio.Mid)
}

func fixed(digits int, v float64) string { return fmt.Sprintf("%.*f", digits, v) }

func confidence() string { return fmt.Sprintf("%.0f %%", 100*stat.Confidence) }
