package bench_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/testkit"
)

// row is a target with its measured figures.
type row struct {
	scenario
	bound
	mine, theirs float64 // medians
	value        stat.Interval
}

// samples runs a case. For each server it returns one sample of each round.
func (f *field) samples(s scenario, failed func(string)) map[string][]turn {
	servers := s.servers()
	all := make(map[string][]turn)
	for range f.roundsOf(s) {
		for _, server := range servers {
			values, err := s.measure(f, server)
			if err != nil {
				failed(fmt.Sprintf("%s: %s: %v", s.name, server, err))
			}
			all[server] = append(all[server], values)
		}
		slices.Reverse(servers)
	}
	return all
}

// compare runs a case and compares its servers.
func (f *field) compare(s scenario, failed func(string)) []row {
	samples := f.samples(s, failed)
	var rows []row
	for _, b := range s.bounds {
		mine, theirs := figures(samples[ours], b.of), figures(samples[b.than], b.of)
		rows = append(rows, rowOf(s, b, mine, theirs, func() stat.Interval {
			return stat.Ratios(mine, theirs).Interval
		}))
	}
	return rows
}

// rowOf returns the row of a target from the figures of each start. ratio is not called without a
// rival.
func rowOf(s scenario, b bound, mine, theirs stat.Starts, ratio func() stat.Interval) row {
	r := row{scenario: s, bound: b, value: median(mine)}
	r.mine = r.value.Mid
	if b.than != "" {
		r.theirs, r.value = median(theirs).Mid, ratio()
	}
	return r
}

// figures returns one metric of all rounds; NaN for a round without it.
func figures(samples []turn, of string) stat.Starts {
	all := make(stat.Starts, len(samples))
	for i, s := range samples {
		v, ok := s[of]
		if !ok {
			v = math.NaN()
		}
		all[i] = []float64{v}
	}
	return all
}

// median returns the median of the starts' values. It ignores NaN.
func median(values stat.Starts) stat.Interval {
	known := slices.DeleteFunc(slices.Concat(values...), math.IsNaN)
	i, _ := stat.Median(known)
	return i
}

// meets reports whether a figure is within a limit.
func (r row) meets(v, limit float64) bool {
	return r.least && v >= limit || !r.least && v <= limit
}

func (r row) met() bool { return r.require == 0 || r.meets(r.value.Mid, r.require) }

// name returns the name of the row's benchmark within its case.
func (r row) name() string {
	name := string(bytes.ReplaceAll([]byte(r.of), []byte("/"), []byte("-per-")))
	if r.than != "" {
		name += "-vs-" + r.than
	}
	return name
}

// report reports the row as metrics of a benchmark.
func (r row) report(b *testing.B) {
	what := "value"
	if r.than != "" {
		what = "ratio"
		b.ReportMetric(r.theirs, "rival")
	}
	b.ReportMetric(r.mine, "tare")
	b.ReportMetric(r.value.Mid, what)
	b.ReportMetric(r.value.Lo, what+"-lo")
	b.ReportMetric(r.value.Hi, what+"-hi")
	if r.require > 0 {
		b.ReportMetric(r.require, "required")
		met := 0.0
		if r.met() {
			met = 1
		}
		b.ReportMetric(met, "met")
	}
	if r.aim > 0 {
		b.ReportMetric(r.aim, "aim")
	}
	b.ReportMetric(0, "ns/op")
}

// verdict returns how a row compares with its limits. A question mark means that the interval
// contains the limit.
func (r row) verdict() string {
	text, limit := "", r.require
	switch {
	case r.require == 0 && r.aim == 0:
		return "-"
	case r.aim > 0 && r.meets(r.value.Mid, r.aim):
		text, limit = "aim met", r.aim
	case r.require == 0:
		text, limit = "aim missed", r.aim
	case r.met():
		text = "met"
	default:
		text = "MISSED"
	}
	if r.meets(r.value.Lo, limit) != r.meets(r.value.Hi, limit) {
		text += "?"
	}
	return text
}

// together returns the rows of targets for groups of cases. It omits groups with a case that was
// not measured.
func together(rows []row) []row {
	measured, within := make(map[group]int), make(map[group]int)
	var groups []group
	for _, r := range rows {
		g := r.group
		if g.cases == 0 || r.than != fastHTTP {
			continue
		}
		if measured[g]++; measured[g] == g.cases {
			groups = append(groups, g)
		}
		if r.meets(r.value.Mid, g.times) {
			within[g]++
		}
	}
	var all []row
	for _, g := range groups {
		n := float64(within[g])
		all = append(all, row{
			scenario: scenario{name: g.name + "-all"},
			bound: bound{of: fmt.Sprintf("cases-of-%d-within-%gx-fasthttp", g.cases, g.times),
				require: float64(g.require), aim: float64(g.aim), least: true},
			mine: n, value: stat.Interval{Lo: n, Mid: n, Hi: n},
		})
	}
	return all
}

// table formats the rows as a table.
func table(rows []row) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "case\tof\ttare\trival\t\tratio\t95 % interval\trequired\taim\t")
	missed, required := 0, 0
	for _, r := range rows {
		if r.require > 0 {
			required++
			if !r.met() {
				missed++
			}
		}
		rival, ratio, interval := "\t-", "-", "-"
		if r.than != "" {
			rival, ratio = fmt.Sprintf("%s\t%.4g", r.than, r.theirs), fmt.Sprintf("%.3f", r.value.Mid)
		}
		if r.value.Known() && r.value.Lo < r.value.Hi {
			interval = fmt.Sprintf("%.4g to %.4g", r.value.Lo, r.value.Hi)
		}
		fmt.Fprintf(w, "%s\t%s\t%.4g\t%s\t%s\t%s\t%s\t%s\t%s\n", r.scenario.name, r.of, r.mine, rival, ratio, interval,
			r.limit(r.require), r.limit(r.aim), r.verdict())
	}
	w.Flush()
	fmt.Fprintf(&b, "%d of %d required targets are met.\n", required-missed, required)
	return b.String()
}

// limit formats a limit with its direction.
func (r row) limit(v float64) string {
	switch {
	case v == 0:
		return "-"
	case r.least:
		return fmt.Sprintf(">= %.4g", v)
	}
	return fmt.Sprintf("<= %.4g", v)
}

// BenchmarkTargets measures every case. A missed target does not fail the benchmark.
func BenchmarkTargets(b *testing.B) {
	f := newField(b, isShort())
	var rows []row
	for _, s := range scenarios() {
		b.Run(s.name, func(b *testing.B) {
			measured := f.compare(s, func(text string) { fmt.Fprintln(os.Stderr, text) })
			for _, r := range measured {
				b.Run(r.name(), r.report)
			}
			rows = append(rows, measured...)
		})
	}
	for _, r := range together(rows) {
		b.Run(r.scenario.name, r.report)
		rows = append(rows, r)
	}
	if len(rows) > 0 {
		fmt.Fprint(os.Stdout, "\n", table(rows), "\n")
	}
}

// tries limits how often a case runs until it has all figures. On a busy machine some may be
// missing.
const tries = 4

// measured runs a case. It returns an error if a figure is missing.
func (f *field) measured(s scenario) (rows []row, err error) {
	rows = f.compare(s, func(text string) { err = errors.Join(err, errors.New(text)) })
	for _, r := range rows {
		if math.IsNaN(r.value.Mid) || r.than != "" && r.value.Mid <= 0 {
			err = errors.Join(err, fmt.Errorf("%s: %s: %v", r.scenario.name, r.name(), r.value))
		}
	}
	return rows, err
}

// Every case runs completely and yields all figures, of any value. Several run at a time. Those
// without figures run again, alone, because the others may have used all CPU time.
func TestEveryTargetIsMeasured(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector multiplies the CPU time of the load")
	}
	f := newField(t, true)
	f.rounds = 1
	var small, alone []scenario
	for _, s := range scenarios() {
		if s.large {
			alone = append(alone, s)
		} else {
			small = append(small, s)
		}
	}
	rows, again := atOnce(f, small, 4)
	t.Logf("%d cases run again, alone", len(again))
	f.inMemFor *= 5
	for _, s := range append(again, alone...) {
		measured, err := f.measured(s)
		for try := 1; err != nil && try < tries; try++ {
			t.Logf("runs once more, longer: %v", err)
			f.inMemFor *= 2
			measured, err = f.measured(s)
		}
		if err != nil {
			t.Error(err)
		}
		rows = append(rows, measured...)
	}
	if n := len(together(rows)); n != 3 {
		t.Errorf("%d groups were measured completely, want 3", n)
	}
	t.Logf("figures of a short run are meaningless:\n%s", table(rows))
}

// atOnce runs cases, atATime of them at once. It returns the rows of the successful ones, and the
// failed cases.
func atOnce(f *field, all []scenario, atATime int) (rows []row, failed []scenario) {
	var mu sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, atATime)
	for _, s := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			measured, err := f.measured(s)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				rows = append(rows, measured...)
			} else {
				failed = append(failed, s)
			}
		})
	}
	running.Wait()
	return rows, failed
}
