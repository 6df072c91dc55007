package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
	"github.com/tarehq/tare/load/report"
)

// machine simulates runs of a server whose speed varies from second to second, with correlated
// seconds.
type machine struct {
	*rand.Rand
	wander float64 // how far, as a share
	follow float64 // how much of it is the last second's, 0 to 1
}

// seconds returns the latencies of n seconds' requests, at a relative speed, rounded to steps.
func (m *machine) seconds(n int, usual, speed float64, step time.Duration) [][]time.Duration {
	drift := m.NormFloat64()
	all := make([][]time.Duration, n)
	for i := range all {
		drift = m.follow*drift + math.Sqrt(1-m.follow*m.follow)*m.NormFloat64()
		now := speed * math.Exp(m.wander*drift)
		for range int(usual * now) {
			d := time.Duration((1 + 0.3*m.ExpFloat64()) / now * 1e6)
			all[i] = append(all[i], d.Round(step))
		}
	}
	return all
}

// series returns some seconds with few requests and few distinct latencies, for speed.
func (m *machine) series(n int, speed float64) *series {
	s := &series{known: true, runs: [][]second{nil}}
	numbers := make(map[time.Duration]int32)
	for _, times := range m.seconds(n, 200, speed, 100*time.Microsecond) {
		counts := make(map[time.Duration]float64)
		for _, d := range times {
			counts[d]++
		}
		x := second{length: 1, requests: float64(len(times))}
		for d, n := range counts {
			if _, ok := numbers[d]; !ok {
				numbers[d] = int32(len(numbers))
			}
			x.bins = append(x.bins, bin{numbers[d], n})
		}
		s.runs[0] = append(s.runs[0], x)
	}
	s.sortTimes(numbers)
	return s
}

// run returns a run of some seconds.
func (m *machine) run(t *testing.T, n int, speed float64) *report.Run {
	t.Helper()
	r := &report.Run{Result: load.Result{
		URL: "http://h/", Connections: 8, Threads: 1, Seconds: float64(n), Latency: hist.New(),
		Generator: load.Generator{UserSeconds: 0.1 * float64(n)},
	}}
	h := hist.New()
	for _, times := range m.seconds(n, 500, speed, 10*time.Microsecond) {
		h.Reset()
		for _, d := range times {
			h.Record(d)
		}
		packed := testkit.Value(h.Pack())(t)
		r.Timeline = append(r.Timeline, load.Second{Requests: uint64(len(times)), Latency: packed})
		r.Requests += uint64(len(times))
		r.Latency.Merge(h)
	}
	return r
}

func all(s *series) *sum {
	whole := newSum(s)
	for _, run := range s.runs {
		for i := range run {
			whole.add(&run[i])
		}
	}
	return whole
}

// Few equal runs show a difference: about 5 in 100 for each figure, or slightly more if seconds are
// correlated.
func TestEqualRunsRarelyDiffer(t *testing.T) {
	testkit.Long(t, "it simulates many runs")
	testkit.NoRace(t, "it multiplies the time of arithmetic, in one goroutine")
	for _, test := range []struct {
		seconds     int
		follow      float64
		pairs, most int
	}{{10, 0, 200, 18}, {24, 0, 200, 20}, {60, 0.5, 40, 9}} {
		m := &machine{rand.New(rand.NewPCG(3, uint64(test.seconds))), 0.05, test.follow}
		shown := make(map[string]int)
		for range test.pairs {
			a, b := m.series(test.seconds, 1), m.series(test.seconds, 1)
			for i, interval := range bootstrap(a, b, figures(), 250) {
				if f := figures()[i]; f.by != nil {
					row := Row{Ratio: shift(interval, f.by(all(b))/f.by(all(a)))}
					if row.Ratio.Known() && !row.Ratio.Contains(1) {
						shown[f.name]++
					}
				}
			}
		}
		if len(shown) == 0 {
			t.Errorf("%d seconds: none of %d equal pairs differ: intervals are too wide", test.seconds, test.pairs)
		}
		for _, name := range []string{"requests/s", "mean", "p50", "p90", "p99"} {
			testkit.Between(t, shown[name], 0, test.most, test.seconds, "seconds:", name, "differs in equal pairs")
		}
	}
}

// A difference of 5 % is found with its direction. These runs have too few requests for the 99th
// percentile.
func TestFivePercentDifferenceIsFound(t *testing.T) {
	m := &machine{rand.New(rand.NewPCG(5, 5)), 0.02, 0}
	a, b := m.run(t, 16, 1), m.run(t, 16, 1.05)
	c := compareRuns(t, "a", a, "b", b)
	for _, name := range []string{"requests/s", "mean", "p50", "p90"} {
		testkit.Equal(t, row(t, c, name).result(), "faster", name)
	}
	rate := row(t, c, "requests/s").Ratio
	if rate.Mid < 1.03 || rate.Mid > 1.07 || !rate.Contains(1.05) {
		t.Errorf("the rate's ratio is %v", rate)
	}
	if back := compareRuns(t, "b", b, "a", a); row(t, back, "requests/s").result() != "slower" ||
		row(t, back, "p50").result() != "slower" {
		t.Errorf("the other way round: %s", back.Verdict())
	}
	wantText(t, c, "B is faster: requests/s 1.0", "; faster by mean, p50,\np90.", "requests/s ", "faster\n",
		"Intervals cover the variation within these runs.")
	same := compareRuns(t, "a", a, "a", a)
	wantText(t, same, "No difference shown in requests/s (0.9", "1.000   0.9")
	if len(same.Differences)+len(same.Remarks) > 0 {
		t.Errorf("a run differs from itself: %q %q", same.Differences, same.Remarks)
	}
}

// Short runs, and those without histograms, have ratios and a reason for missing intervals.
func TestShortRunsHaveNoIntervals(t *testing.T) {
	m := &machine{rand.New(rand.NewPCG(6, 6)), 0.02, 0}
	short, other := m.run(t, 5, 1), m.run(t, 20, 2)
	c := compareRuns(t, "short.json", short, "b", other)
	wantText(t, c, "short.json is too short for intervals: want at least 8 seconds.",
		"No verdict without intervals. The ratio of requests/s is 1.9")
	bare := m.run(t, 20, 1)
	for i := range bare.Timeline {
		bare.Timeline[i].Latency = hist.Packed{}
	}
	c = compareRuns(t, "bare.json", bare, "b", other)
	wantText(t, c, "bare.json lacks histograms of some seconds", "B is faster: requests/s")
	if r := row(t, c, "p50"); r.Ratio.Known() || r.Ratio.Mid < 0.45 || r.Ratio.Mid > 0.55 {
		t.Errorf("p50: %+v", r)
	}
	if r := row(t, c, "errors"); !math.IsNaN(r.Ratio.Mid) || r.A != "0%" {
		t.Errorf("without errors: %+v", r)
	}
}

// The share of errors is that of all requests that ended. Those with an unexpected status have a
// response, timeouts have none.
func TestErrorShareCountsEachRequestOnce(t *testing.T) {
	testkit.Long(t, "it simulates runs")
	m := &machine{rand.New(rand.NewPCG(10, 10)), 0.02, 0}
	for want, kinds := range map[string]func(n uint64) load.Errors{
		"100%": func(n uint64) load.Errors { return load.Errors{Status: n} },
		"50%":  func(n uint64) load.Errors { return load.Errors{Timeout: n} },
	} {
		r := m.run(t, 10, 1)
		r.Errors = kinds(r.Requests)
		for i := range r.Timeline {
			s := &r.Timeline[i]
			s.Kinds, s.Errors = new(kinds(s.Requests)), s.Requests
		}
		c := compareRuns(t, "a", r, "b", r)
		s, _ := newSeries(c.A)
		if got := row(t, c, "errors"); got.A != want || fmt.Sprintf("%.0f%%", 100*all(s).errorShare()) != want ||
			!got.Ratio.Known() {
			t.Errorf("%+v, %v; want %s", got, all(s).errorShare(), want)
		}
	}
}

// Runs of hours are split into fewer parts without loss.
func TestLongRunsAreMerged(t *testing.T) {
	testkit.Long(t, "it simulates runs")
	testkit.NoRace(t, "it multiplies the time of arithmetic, in one goroutine")
	m := &machine{rand.New(rand.NewPCG(7, 7)), 0.02, 0}
	r := m.run(t, 10, 1)
	r.Timeline = slices.Repeat(r.Timeline, 25)
	r.Seconds = float64(len(r.Timeline))
	s, remark := newSeries(Side{"r", []*report.Run{r}})
	whole := all(s)
	if len(s.runs[0]) > maxSeconds || remark != "" || whole.total.length != 250 ||
		whole.total.requests != 25*float64(r.Requests) || whole.count != whole.total.requests {
		t.Errorf("%d parts, %q; %v seconds, %v requests, %v times", len(s.runs[0]), remark, whole.total.length,
			whole.total.requests, whole.count)
	}
	testkit.Between(t, time.Duration(whole.quantile(0.5)), 1100*time.Microsecond, 1300*time.Microsecond, "p50")
}

// With several runs of a side, the interval includes the variation between runs.
func TestSeveralRunsWidenIntervals(t *testing.T) {
	testkit.Long(t, "it simulates runs")
	m := &machine{rand.New(rand.NewPCG(8, 8)), 0.01, 0}
	var a, b []*report.Run
	for _, speed := range []float64{0.9, 1, 1.1} {
		a, b = append(a, m.run(t, 12, speed)), append(b, m.run(t, 12, speed*1.05))
	}
	within := compareRuns(t, "a", a[1], "b", b[1])
	c := testkit.Value(Compare(Side{"a", a}, Side{"b", b}))(t)
	testkit.Equal(t, row(t, within, "requests/s").result(), "faster", text(t, within))
	testkit.Equal(t, row(t, c, "requests/s").result(), "no difference shown", text(t, c))
}

func TestDifferentSettingsAreListed(t *testing.T) {
	m := &machine{rand.New(rand.NewPCG(9, 9)), 0.01, 0}
	a, b := m.run(t, 10, 1), m.run(t, 10, 1)
	b.URL, b.Connections, b.Due = "http://other/", 16, 5000
	a.About.Machine.Cores, b.About.Machine.Cores = 2, 4
	a.About.Flags = map[string]string{"connections": "8", "pipeline": "4"}
	b.About.Flags = map[string]string{"connections": "16", "rate": "500"}
	wantText(t, compareRuns(t, "a", a, "b", b),
		"different URL: http://h/ and http://other/\n", "different connections: 8 and 16\n",
		"different loop: closed and open\n",
		"different --pipeline: 4 and not set\n", "different --rate: not set and 500\n",
		"different CPU cores: 2 and 4\n", "requests/s", "One loop is open and the other closed")
	once, again := compareRuns(t, "a", a, "b", b), compareRuns(t, "a", a, "b", b)
	testkit.Equal(t, text(t, once), text(t, again), "the same comparison")
	a.Due = 5000 // of two open loops the latency is judged
	if c := compareRuns(t, "a", a, "b", b); !row(t, c, "p99").IsMain {
		t.Errorf("judged by another: %s", c.Verdict())
	}
	testkit.Fails(Compare(Side{"a", nil}, Side{"b", nil}))(t, "", "nothing compared")
}

// Quantiles are interpolated linearly between known latencies.
func TestQuantilesAreInterpolated(t *testing.T) {
	s := newSum(&series{times: []float64{100, 200, 300}})
	s.add(&second{bins: []bin{{0, 50}, {1, 40}, {2, 10}}})
	for q, want := range map[float64]float64{0.25: 100, 0.5: 100, 0.7: 150, 0.9: 200, 0.95: 250, 1: 300} {
		testkit.Between(t, s.quantile(q), want-1e-9, want+1e-9, q)
	}
	s.reset()
	if !math.IsNaN(s.quantile(0.5)) || !math.IsNaN(s.mean()) {
		t.Error("nothing has a quantile")
	}
}

// Values from tables of Student's distribution.
func TestStudentMatchesTables(t *testing.T) {
	for freedom, want := range map[float64]float64{4: 2.776, 10: 2.228, 30: 2.042, 1000: 1.962} {
		testkit.Between(t, student(freedom), want-0.02, want+0.02, freedom)
	}
}

func compareRuns(t *testing.T, nameA string, a *report.Run, nameB string, b *report.Run) *Comparison {
	t.Helper()
	return testkit.Value(Compare(Side{nameA, []*report.Run{a}}, Side{nameB, []*report.Run{b}}))(t)
}

func row(t *testing.T, c *Comparison, name string) *Row {
	t.Helper()
	for i := range c.Rows {
		if c.Rows[i].Name == name {
			return &c.Rows[i]
		}
	}
	t.Fatalf("no row %s", name)
	return nil
}

func text(t *testing.T, c *Comparison) string {
	t.Helper()
	var b strings.Builder
	testkit.Must(t, c.WriteText(&b))
	return b.String()
}

func wantText(t *testing.T, c *Comparison, parts ...string) {
	t.Helper()
	for _, part := range parts {
		testkit.Contains(t, text(t, c), part)
	}
}
