package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// slicesRun returns a run of the control, its twin and a contender that costs a multiple, in starts
// of slices. In some slices other programs use a share of a CPU.
func slicesRun(times, share float64, disturbed func(start, round int) bool) *sample.Run {
	const starts, rounds = 8, 6
	c := sample.Condition{Cores: 1, Connections: 8}
	run := &sample.Run{Blocks: starts, Conditions: []sample.Condition{c}, Measure: time.Second}
	run.Entrants = []sample.Entrant{
		{Name: "control", Title: "control", Kind: sample.Control}, {Name: "twin", Title: "twin", Kind: sample.Twin},
		{Name: "way", Title: "way", Kind: sample.Way},
	}
	for start := range starts {
		for i, e := range run.Entrants {
			r := sample.Record{Block: start + 1, Condition: c, Contender: e.Name, Load: &load.Result{
				Requests: 1000 * rounds, Seconds: 0.2 * rounds, Latency: hist.New(),
			}}
			for round := range rounds {
				cost := 10.0 * (1 + 0.002*float64((start+3*i)%5-2) + 0.01*float64((round+i)%3-1))
				if e.Kind == sample.Way {
					cost *= times
				}
				s := sample.Slice{Round: round + 1, Elapsed: 200 * time.Millisecond, Requests: 1000,
					CPU: map[string]time.Duration{"application": time.Duration(cost * 1e6)}}
				if disturbed(start, round) {
					s.CPU["application"] += 5 * time.Millisecond * time.Duration(i)
					s.Others = time.Duration(share * float64(s.Elapsed))
				}
				r.Slices = append(r.Slices, s)
			}
			run.Records = append(run.Records, r)
		}
	}
	return run
}

func rowOf(t *testing.T, run *sample.Run, name string) *analyze.Row {
	t.Helper()
	row := New(run).Tables[0].Named(name)
	if row == nil {
		t.Fatalf("no row of %s", name)
	}
	return row
}

func never(int, int) bool { return false }

func TestRatiosCompareSlices(t *testing.T) {
	run := slicesRun(1.1, 0, never)
	row := rowOf(t, run, "way")
	if math.Abs(row.Ratio.Mid-1.1) > 0.01 || row.Ratio.Finding() != stat.More || row.Ratio.SliceCount != 48 || row.Ratio.Slices < 0.005 ||
		row.Ratio.Slices > 0.03 || row.Ratio.Starts > 0.01 {
		t.Errorf("%+v, %v of %d slices, spreads %v and %v", row.Ratio, row.Ratio.Finding(), row.Ratio.SliceCount, row.Ratio.Slices,
			row.Ratio.Starts)
	}
	testkit.Equal(t, rowOf(t, run, "twin").Ratio.Finding(), stat.Same, "twin")
	testkit.Contains(t, New(run).Tables[0].VariationNote(), "48 slices")
}

// A few disturbed slices are left out. With many, the interval is wider, and the verdict and the
// first screen say so in one line.
func TestDisturbedSlicesAreLeftOutOrWarnedOf(t *testing.T) {
	few := rowOf(t, slicesRun(1.1, 0.5, func(start, _ int) bool { return start == 0 }), "way")
	if math.Abs(few.Ratio.Mid-1.1) > 0.01 || few.Ratio.Finding() != stat.More || few.Ratio.SliceCount != 42 {
		t.Errorf("few disturbed slices: %+v, %v of %d slices", few.Ratio, few.Ratio.Finding(), few.Ratio.SliceCount)
	}
	busy := func(start, _ int) bool { return start < 3 }
	run := slicesRun(1.1, 0.5, busy)
	many, calm := rowOf(t, run, "way"), rowOf(t, slicesRun(1.1, 0, busy), "way")
	const others = "Other programs used 0.19 of a CPU, so the intervals are wider."
	if many.Ratio.Lo >= calm.Ratio.Lo || many.Ratio.Hi <= calm.Ratio.Hi ||
		!strings.Contains(strings.Join(many.Warnings, " "), "other programs") {
		t.Errorf("many disturbed slices: %+v, without others %+v, %q", many.Ratio, calm.Ratio, many.Warnings)
	}
	if b := New(run).Brief(); !strings.Contains(b, "\n"+others+"\n") || !strings.HasSuffix(New(run).Verdict(), others) {
		t.Errorf("%s\n%s", New(run).Verdict(), b)
	}
	if much := rowOf(t, slicesRun(3, 0.5, busy), "way"); much.Ratio.Finding() != stat.More || much.Ratio.Others == 0 {
		t.Errorf("large difference, disturbed: %+v, %v", much.Ratio, much.Ratio.Finding())
	}
	if hardly := rowOf(t, slicesRun(1.1, 0.1, func(int, int) bool { return true }), "way"); !hardly.Ratio.Known() ||
		hardly.Ratio.SliceCount != 48 {
		t.Errorf("hardly disturbed: %+v of %d slices", hardly.Ratio, hardly.Ratio.SliceCount)
	}
}

// A block in which a contender was measured alone counts beside those side by side.
func TestBlocksOfBothKindsCount(t *testing.T) {
	run := slicesRun(1.5, 0, never)
	for i := range run.Records {
		r := &run.Records[i]
		if r.Block != 3 || r.Contender == "twin" {
			continue
		}
		alone := *r
		alone.Alone, alone.Slices, alone.Costs = "to be compared", nil, costs(60*time.Millisecond)
		if r.Contender == "way" {
			alone.Alone, alone.Costs = "a hiccup", costs(120*time.Millisecond) // twice the control's
			*r = alone
		} else {
			run.Records = append(run.Records, alone)
		}
	}
	row := rowOf(t, run, "way")
	want := math.Exp((7*math.Log(1.5) + math.Log(2)) / 8)
	if row.Trials != 8 || row.Ratio.SliceCount != 7*6+1 || math.Abs(row.Ratio.Mid-want) > 0.01 || len(row.Limits) != 1 ||
		row.Limits[0] != "measured alone in 1 of 8 blocks: a hiccup" {
		t.Errorf("%d trials, %d slices, %+v, want %v; %q", row.Trials, row.Ratio.SliceCount, row.Ratio, want, row.Limits)
	}
}

// A contender that was measured alone is compared with the control measured alone. A contender that
// uses CPU time during the slices of others has a warning.
func TestContendersMeasuredAloneAreCompared(t *testing.T) {
	run := slicesRun(2, 0, never)
	var more []sample.Record
	change(run, "way", func(r *sample.Record) {
		r.Alone, r.Slices, r.Costs = "it does not sleep", nil, costs(30*time.Millisecond)
		r.Load.Requests = 1000
	})
	change(run, "control", func(r *sample.Record) {
		alone, loaded := *r, *r.Load
		loaded.Requests = 1000
		alone.Alone, alone.Slices, alone.Load, alone.Costs = "beside it", nil, &loaded, costs(20*time.Millisecond)
		more = append(more, alone)
	})
	change(run, "twin", func(r *sample.Record) {
		r.Asleep = sample.Asleep{For: time.Second, CPU: 9 * time.Millisecond}
	})
	run.Records = append(run.Records, more...)
	if row := rowOf(t, run, "way"); math.Abs(row.Ratio.Mid-1.5) > 1e-9 || !row.Ratio.Known() ||
		!strings.Contains(strings.Join(row.Warnings, " "), "alone") {
		t.Errorf("%+v, %q", row.Ratio, row.Warnings)
	}
	testkit.Contains(t, New(run).Brief(), "way: measured alone in 8 of 8 blocks: it does not sleep\n")
	if twin := rowOf(t, run, "twin"); twin.Ratio.SliceCount != 48 ||
		!strings.Contains(strings.Join(twin.Warnings, " "), "0.9 % of a CPU") {
		t.Errorf("%d slices, %q", twin.Ratio.SliceCount, twin.Warnings)
	}
}

func TestHigherCostOfFirstSlicesHasAWarning(t *testing.T) {
	run := slicesRun(1, 0, never)
	change(run, "way", func(r *sample.Record) {
		for j := range 3 {
			r.Slices[j].CPU["application"] *= 2
		}
	})
	testkit.Contains(t, strings.Join(rowOf(t, run, "way").Warnings, " "), "longer warm-up than")
	if twin := rowOf(t, run, "twin"); strings.Contains(strings.Join(twin.Warnings, " "), "longer warm-up than") {
		t.Errorf("%q", twin.Warnings)
	}
}

func costs(d time.Duration) map[string][]proc.Cost {
	return map[string][]proc.Cost{"application": {{User: d}}}
}

// A contender that was measured alone is not compared with one that was measured beside others.
func TestTrialsAloneAreNotComparedWithSlices(t *testing.T) {
	run := slicesRun(2, 0, never)
	run.Compare = []sample.Comparison{{What: "it", Of: "way", Than: "twin"}}
	change(run, "way", func(r *sample.Record) {
		r.Alone, r.Slices, r.Costs = "it does not sleep", nil, costs(30*time.Millisecond)
	})
	table := New(run).Tables[0]
	if len(table.Pairs) != 1 || table.Pairs[0].Ratio.Known() || len(table.Decompositions) != 0 {
		t.Errorf("pairs %+v, decomposed %+v", table.Pairs, table.Decompositions)
	}
}

func TestPairsOfMeasuredContendersAreCompared(t *testing.T) {
	run := fixture()
	run.Compare = []sample.Comparison{
		{What: "the proxy", Of: "nginx-nethttp", Than: "nethttp"}, {What: "our engine", Of: "tare", Than: "nethttp"},
		{What: "being the twin", Of: "twin", Than: "nethttp"},
		{What: "an absent part", Of: "absent", Than: "nethttp"},
	}
	a := New(run)
	all := a.Tables[0].Pairs
	if len(all) != 3 {
		t.Fatalf("%d comparisons, want those with both sides measured", len(all))
	}
	p := all[0]
	// The blocks drift from 1.1 to 1.6, so the median factor is that between the two in the middle.
	if extra := 13 * 1.35; math.Abs(p.ExtraUs()-extra) > 0.01 {
		t.Errorf("the proxy costs %v µs more, want %v", p.ExtraUs(), extra)
	}
	if math.Abs(p.Ratio.Mid-2.3) > 1e-3 || math.Abs(p.AppRatio.Mid-1.1) > 1e-3 {
		t.Errorf("the proxy is %v times, its application %v; want 2.3 and 1.1", p.Ratio.Mid, p.AppRatio.Mid)
	}
	const want = "The proxy costs 17.5 µs; our engine saves 4.73 µs; being the twin makes no difference."
	testkit.Equal(t, a.Verdict(), want)
	text, page := a.Text(), a.page()
	for _, want := range []string{"The proxy costs 17.5 µs;",
		"the proxy 17.55 2.30 2.30–2.30 more 1.10 1.10–1.10 nginx → net/http with net/http"} {
		testkit.Contains(t, strings.Join(strings.Fields(text), " "), want)
	}
	if !strings.Contains(page, "Cost of the parts") || !strings.Contains(page, "our engine") {
		t.Error("the page lacks the comparisons")
	}
	unclear := analyze.Pair{Comparison: sample.Comparison{What: "noise"}, Ratio: stat.Interval{Lo: 0.9, Mid: 1, Hi: 1.1}}
	testkit.Equal(t, pairSentence(&unclear), "the cost of noise is unclear in this run")
}

// countedSample returns the sample with trials that the kernel counted, under its first condition.
func countedSample() *sample.Run {
	run := fixture()
	run.Compare = []sample.Comparison{{What: "the engine", Of: "fasthttp", Than: "tare"},
		{What: "the hop", Of: "nginx-nethttp", Than: "nethttp"}}
	add := func(name string, calls map[string]map[string]uint64) {
		r := record(name, 1, run.Conditions[0], 0, 10)
		r.Block, r.Attribution = 0, &sample.Attribution{Calls: calls,
			Missing: []string{"system calls were not counted: no right"}}
		run.Records = append(run.Records, r)
	}
	one := func(n uint64) uint64 { return n * perTrial }
	add("nethttp", map[string]map[string]uint64{contender.RoleApplication: {"read": one(2), "write": one(1)},
		"generator": {"epoll_wait": one(9)}}) // older journals have it
	add("nginx-nethttp", map[string]map[string]uint64{
		contender.RoleApplication: {"read": one(2), "write": one(1), "accept4": one(1)},
		contender.RoleNginx:       {"recvfrom": one(2), "writev": one(2), "futex": perTrial / 1000},
	})
	return run
}

// weightsOf returns the weights of a contender's timed trials, block by block.
func weightsOf(run *sample.Run, name string, c sample.Condition) []float64 {
	weights := make([]float64, run.Blocks)
	for i := range run.Records {
		if r := &run.Records[i]; r.Contender == name && r.Condition == c && r.Timed() {
			weights[r.Block-1] = r.WeightUs()
		}
	}
	return weights
}

// The totals of decompositions equal the reported differences.
func TestDecompositionsMatchReportedDifferences(t *testing.T) {
	a := New(countedSample())
	for i := range a.Tables {
		if n := len(a.Tables[i].Decompositions); n != 5 { // four contenders, and one pair without the control
			t.Fatalf("%d decompositions", n)
		}
		for _, d := range a.Tables[i].Decompositions {
			c := a.Tables[i].Condition
			extra := stat.Difference(weightsOf(a.Run, d.Of.Name, c), weightsOf(a.Run, d.Than.Name, c))
			if extra != d.TotalUs {
				t.Errorf("%s: the total is %v, and the difference of the weights %v", d.Of.Title, d.TotalUs, extra)
			}
		}
	}
	run := countedSample()
	drop(run, "nethttp") // only the pair remains
	if all := New(run).Tables[0].Decompositions; len(all) != 1 || all[0].What != "the engine" ||
		all[0].Of.Name != "fasthttp" {
		t.Errorf("without a control: %d decompositions", len(all))
	}
}

// Counted trials are shown, and do not change the figures of timed ones.
func TestCountedTrialsDoNotChangeTimedFigures(t *testing.T) {
	with, without := New(countedSample()), New(fixture())
	for i := range without.Tables[0].Rows {
		a, b := &with.Tables[0].Rows[i], &without.Tables[0].Rows[i]
		if a.Trials != b.Trials || a.WeightUs != b.WeightUs || a.PerSecond != b.PerSecond || len(a.Failures) != 0 {
			t.Errorf("%s: %+v with counted trials, %+v without", a.Name, a.WeightUs, b.WeightUs)
		}
	}
	used := &with.Tables[0]
	testkit.Equal(t, strings.Join(used.CallNames(), " "), "read recvfrom writev accept4 write", "columns")
	testkit.Equal(t, len(used.Missing), 1, used)
	testkit.Equal(t, len(with.Tables[1].Missing), 0, "what was counted under another condition")
	text, page := with.Text(), with.page()
	for _, want := range []string{"system calls were not counted: no right", "the hop costs 17.5 µs",
		"nginx → net/http nginx 2.00 2.00 4.00", "nginx → net/http application 2.00 1.00 1.00 4.00"} {
		testkit.Contains(t, squeeze(text), want)
	}
	for _, want := range []string{"<li>system calls were not counted: no right</li>",
		`<td class="heat-3">2.00</td>`} {
		testkit.Contains(t, page, want, "the page")
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!"} {
		testkit.Lacks(t, page, bad, "the page")
	}
}

// A failure in a counted trial is reported, and does not change the contender's figures. If the
// contender ended while the kernel counted its calls, there is no load in which they were made.
func TestFailureInACountedTrialIsReported(t *testing.T) {
	run := countedSample()
	last := &run.Records[len(run.Records)-1]
	for _, counted := range []*sample.Attribution{last.Attribution, new(sample.Attribution)} {
		last.Failure, last.Load, last.Attribution = "it fell over", nil, counted
		table := New(run).Tables[0]
		row := table.Named("nginx-nethttp")
		testkit.Equal(t, row.Trials, blocks, "trials")
		testkit.Equal(t, len(row.Failures), 0, row.Failures)
		testkit.Contains(t, strings.Join(table.Missing, "; "), "nothing was counted of nginx → net/http: it fell over")
	}
}
