package report

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/table"
	"github.com/tarehq/tare/internal/stat"
)

// rowLine is a row of a table with its table.
type rowLine struct {
	table *Table
	*analyze.Row
}

func (l rowLine) condition() sample.Condition { return l.table.Condition }

// rows returns the rows of all tables, those of sweeps last.
func (a *Report) rows() iter.Seq[rowLine] {
	return func(yield func(rowLine) bool) {
		all := slices.Clone(a.Tables)
		for _, s := range a.SweepResults() {
			all = append(all, s.tables...)
		}
		for i := range all {
			for _, line := range all[i].lines() {
				if !yield(line) {
					return
				}
			}
		}
	}
}

func (t *Table) lines() []rowLine {
	lines := make([]rowLine, len(t.Rows))
	for i := range lines {
		lines[i] = rowLine{t, &t.Rows[i]}
	}
	return lines
}

// leading returns the columns with which lines about a condition begin in CSV. At saturation the
// rate is empty.
func leading[T any](a *Report, of func(T) sample.Condition, more ...table.Column[T]) []table.Column[T] {
	return append([]table.Column[T]{
		table.Text("experiment", func(T) string { return a.Experiment }),
		table.Count("cores", func(v T) int { return of(v).Cores }),
		table.Count("connections", func(v T) int { return of(v).Connections }),
		table.Text("rate_per_sec", func(v T) string {
			if of(v).Saturated() {
				return ""
			}
			return table.Number(of(v).Rate)
		}),
		table.Text("scenario", func(v T) string { return of(v).Scenario.Name }),
	}, more...)
}

// Outputs of columns.
const (
	always   = table.Brief | table.Terminal | table.Page
	detailed = table.Terminal | table.Page
)

// resultColumns returns the columns of a condition's table. Names of times end in their unit.
func (a *Report) resultColumns() []table.Column[rowLine] {
	weight := table.Interval("weight_us", func(l rowLine) stat.Interval { return l.WeightUs })
	weight[0] = weight[0].For(always, "µs/request", func(l rowLine) string {
		if l.Trials == 0 {
			return "failed"
		}
		return fixed(2, l.WeightUs.Mid)
	})
	ratio := table.Interval("ratio", func(l rowLine) stat.Interval { return l.Ratio })
	ratio[0] = ratio[0].For(always, "times", unlessFailed(func(l rowLine) string { return ratioText(l.Row) }))
	ratio[1] = ratio[1].For(always, confidence()+"\ninterval",
		unlessControl(func(l rowLine) string { return intervalText(l.Ratio) }))
	finding := table.Text("finding", func(l rowLine) string { return l.Finding.String() }).
		For(detailed, "finding", unlessControl(func(l rowLine) string {
			if !l.Ratio.Known() {
				return ""
			}
			return l.Finding.String()
		}))
	finding.Class = func(l rowLine) string { return finding.Text(l) }
	all := leading(a, rowLine.condition,
		table.Text("contender", func(l rowLine) string { return l.Name }).
			For(always, "", func(l rowLine) string { return l.Title }),
		table.Text("kind", func(l rowLine) string { return string(l.Kind) }),
		table.Count("trials", func(l rowLine) int { return l.Trials }),
	)
	all = slices.Concat(all, weight, splitColumns(), ratio, []table.Column[rowLine]{finding,
		table.Count("slices", func(l rowLine) int { return l.Slices }),
		table.Figure("slice_spread", func(l rowLine) float64 { return l.SliceSpread }),
		table.Figure("start_spread", func(l rowLine) float64 { return l.StartSpread })})
	for _, role := range sample.Roles() {
		all = append(all,
			table.Figure(role+"_user_us", func(l rowLine) float64 { return partOf(l.Row, role).UserUs }),
			table.Figure(role+"_sys_us", func(l rowLine) float64 { return partOf(l.Row, role).SysUs }))
	}
	return slices.Concat(all, loadColumns(), processColumns(), []table.Column[rowLine]{
		table.Text("sweep", func(l rowLine) string { return l.condition().Axis }),
		table.Count("gomaxprocs", func(l rowLine) int { return l.condition().Procs }),
		table.Count("workers", func(l rowLine) int { return l.condition().Workers }),
	})
}

// splitColumns returns the columns of user and system time, which are empty where they are not
// separated.
func splitColumns() []table.Column[rowLine] {
	part := func(of func(analyze.Part) float64) func(rowLine) string {
		return unlessFailed(func(l rowLine) (text string) {
			if !l.condition().Saturated() {
				return ""
			}
			sum := 0.0
			for _, p := range l.Parts {
				sum += of(p)
			}
			return fixed(2, sum)
		})
	}
	return []table.Column[rowLine]{
		table.Column[rowLine]{}.For(table.Terminal, "user", part(func(p analyze.Part) float64 { return p.UserUs })),
		table.Column[rowLine]{}.For(table.Terminal, "sys", part(func(p analyze.Part) float64 { return p.SysUs })),
	}
}

// loadColumns returns the columns of what the generator measured.
func loadColumns() []table.Column[rowLine] {
	all := []table.Column[rowLine]{
		table.Figure("requests_per_sec", func(l rowLine) float64 { return l.PerSecond.Mid }).
			For(always, "requests/s", unlessFailed(func(l rowLine) string { return fixed(0, l.PerSecond.Mid) })),
	}
	for _, q := range []struct {
		name  string
		share float64
		head  string
		in    table.Outputs
	}{
		{"p50_ms", 0.5, "p50", detailed}, {"p90_ms", 0.9, "", 0}, {"p99_ms", 0.99, "p99", always},
		{"p999_ms", 0.999, "", 0}, {"max_ms", 1, "", 0},
	} {
		of := func(l rowLine) time.Duration { return l.Latency.Quantile(q.share) }
		all = append(all, table.Figure(q.name, func(l rowLine) float64 { return ms(of(l)) }).
			For(q.in, q.head, unlessFailed(func(l rowLine) string { return millis(of(l)) })))
	}
	return all
}

// processColumns returns the columns of what the kernel measured of the processes.
func processColumns() []table.Column[rowLine] {
	return []table.Column[rowLine]{
		table.Column[rowLine]{}.For(table.Terminal, "switches",
			unlessFailed(func(l rowLine) string { return fixed(2, l.Voluntary+l.Involuntary) })),
		table.Figure("voluntary_switches_per_request", func(l rowLine) float64 { return l.Voluntary }).
			For(table.Page, "switches\nwaiting", unlessFailed(func(l rowLine) string { return fixed(3, l.Voluntary) })),
		table.Figure("involuntary_switches_per_request", func(l rowLine) float64 { return l.Involuntary }).
			For(table.Page, "switches\nforced",
				unlessFailed(func(l rowLine) string { return fixed(3, l.Involuntary) })),
		table.Figure("rss_bytes", func(l rowLine) float64 { return l.RSS }).
			For(detailed, "MB", unlessFailed(func(l rowLine) string { return fixed(0, l.RSS/1e6) })),
		table.Figure("other_accepts_per_sec", func(l rowLine) float64 { return l.OtherAccepts }).
			For(table.Page, "other\naccepts/s",
				unlessFailed(func(l rowLine) string { return fixed(0, l.OtherAccepts) })),
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
