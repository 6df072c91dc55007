package report

import (
	"math"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// goal parses bounds.
func goal(t *testing.T, text string) load.Goal {
	t.Helper()
	return testkit.Value(load.ParseGoal(text))(t)
}

// A bound is violated, or holds, only if the whole interval says so.
func TestBoundsAreDecidedByWholeIntervals(t *testing.T) {
	inf := math.Inf(1)
	for _, test := range []struct {
		bound       string
		lo, mid, hi float64
		want        stat.Outcome
	}{
		{"cpu>+3%", 1.04, 1.05, 1.06, stat.Violated},
		{"cpu>+3%", 1.02, 1.05, 1.06, stat.Undecided}, // likely, but not shown
		{"cpu>+3%", 1.03, 1.05, 1.06, stat.Undecided}, // reaches the bound
		{"cpu>+3%", 0.5, 0.5, 0.5, stat.Holds},
		{"cpu>+3%", 0.9, 1, 1.03, stat.Holds},
		{"cpu>+3%", 4, 5, 6, stat.Violated},
		{"rps<-5%", 0.90, 0.92, 0.94, stat.Violated},
		{"rps<-5%", 0.90, 0.92, 0.96, stat.Undecided},
		{"rps<-5%", 0.90, 0.92, 0.95, stat.Undecided},
		{"rps<-5%", 1.1, 1.2, 1.3, stat.Holds},
		{"p99>+10%", 1.2, 1.3, 1.4, stat.Violated},
		{"p50>+10%", 0.9, 1.3, 1.4, stat.Undecided},
		{"cpu>-10%", 0.95, 1, 1.05, stat.Violated}, // requires a reduction by a tenth
		{"cpu>-10%", 0.80, 0.85, 0.88, stat.Holds},
		{"cpu>+3%", -inf, 5, inf, stat.Undecided}, // too few blocks
		{"cpu>+3%", 1.5, math.NaN(), 1.6, stat.Undecided},
		{"rps<-5%", -inf, 0.1, inf, stat.Undecided},
	} {
		b := goal(t, test.bound).Bounds[0]
		c := analyze.Change{Metric: sample.Metric(b.Name()), Ratio: stat.Interval{Lo: test.lo, Mid: test.mid, Hi: test.hi}}
		testkit.Equal(t, outcome(b, &c), test.want, test.bound, c.Ratio)
	}
	for share, want := range map[float64]stat.Outcome{0: stat.Holds, 0.01: stat.Holds, 0.02: stat.Violated} {
		c := analyze.Change{Metric: sample.Errors, ErrorShare: share}
		testkit.Equal(t, outcome(goal(t, "errors>1%").Bounds[0], &c), want, "errors>1% with", share)
	}
}

// Bounds that the trials cannot decide are errors.
func TestBoundsNeedIntervalsAndRates(t *testing.T) {
	for _, test := range []struct {
		bounds string
		blocks int
		atRate bool
		want   string
	}{
		{"cpu>+3%,rps<-5%,errors>0", 5, false, ""},
		{"cpu>+3%", 3, true, "cpu>+3%: 3 blocks have no interval: want 5 or more"},
		{"errors>0", 1, false, ""},
		{"errors>0,p99>+10%", 8, false, "p99>+10%: latencies are compared at a fixed rate, which is not set"},
		{"p50>+10%", 8, true, ""},
		{"mean>+10%", 8, true, "mean>+10%: mean is not compared: want one of [cpu rps p50 p99 errors]"},
		{"rps<100", 8, true, "load: rps<100 concerns one run: want a signed change such as +3%"},
	} {
		if err := CheckBounds(goal(t, test.bounds), test.blocks, test.atRate); (err == nil) != (test.want == "") ||
			err != nil && err.Error() != test.want {
			t.Errorf("%s in %d blocks: %v, want %q", test.bounds, test.blocks, err, test.want)
		}
	}
}

// twoBuilds returns a run of two builds. The CPU time of the second is multiplied by a factor for
// each block.
func twoBuilds(factors ...float64) *sample.Run {
	run := fixture()
	run.Blocks, run.Records = len(factors), nil
	run.Entrants = []sample.Entrant{
		{Name: "a", Title: "A", Kind: sample.Control}, {Name: "b", Title: "B", Kind: sample.Build},
	}
	for _, c := range run.Conditions {
		for i, factor := range factors {
			first, second := record("a", i+1, c, 0, 10), record("b", i+1, c, 0, 10*factor)
			second.Load = first.Load
			run.Records = append(run.Records, first, second)
		}
	}
	return run
}

func TestJudgeDecidesByWholeIntervals(t *testing.T) {
	bounds := goal(t, "cpu>+3%,rps<-5%,errors>0")
	for _, test := range []struct {
		name    string
		factors []float64
		want    string // of cpu
		verdict string
		color   string // of the badge
	}{
		{"slower", []float64{2, 2.1, 2.2, 1.9, 2, 2.05}, "cpu>+3%: FAILED: CPU time per request: +10",
			"A request costs 10", `"red"`},
		{"wavering", []float64{1.1, 1.25, 1.4, 0.9, 1.1, 1},
			"cpu>+3%: undecided: CPU time per request: +11.", "This run cannot tell", `"lightgrey"`},
		{"equal", []float64{1, 1, 1, 1, 1, 1}, "cpu>+3%: holds: CPU time per request: +0.0 %",
			"A request costs the same CPU time with B", `"brightgreen"`},
		{"few blocks", []float64{5, 5}, "cpu>+3%: undecided: CPU time per request: +400.0 % (no interval)",
			"This run cannot tell", `"message":"+400.0 % (no interval) of CPU time","color":"lightgrey"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := New(twoBuilds(test.factors...))
			all := a.Judge(bounds)
			if len(all) != len(bounds.Bounds)*len(a.Tables) {
				t.Fatal(all)
			}
			if !strings.HasPrefix(all[0].Text, test.want) || !strings.Contains(test.want, all[0].Outcome.String()) {
				t.Errorf("got %q, %v, want %q", all[0].Text, all[0].Outcome, test.want)
			}
			if last := all[len(all)-1]; last.Outcome != stat.Holds { // errors
				t.Errorf("equal figures: %+v", last)
			}
			var badge strings.Builder
			if err := a.WriteBadge(&badge); err != nil || !strings.Contains(badge.String(), test.color) {
				t.Errorf("%s, %v; want %s", badge.String(), err, test.color)
			}
			if v := a.Verdict(); !strings.HasPrefix(v, test.verdict) {
				t.Errorf("verdict %q, want %q", v, test.verdict)
			}
		})
	}
	alone := twoBuilds(1)
	alone.Records = alone.Records[:1]
	for _, j := range New(alone).Judge(bounds) {
		if j.Outcome != stat.Undecided || !strings.Contains(j.Text, "not both measured") {
			t.Errorf("judged an unmeasured build: %+v", j)
		}
	}
}

// Latencies at saturation are not judged.
func TestLatenciesAreJudgedAtAFixedRate(t *testing.T) {
	run := twoBuilds(1, 1, 1, 1, 1, 1)
	bounds := goal(t, "p99>+10%")
	if all := New(run).Judge(bounds); len(all) != 1 || all[0].Outcome != stat.Undecided {
		t.Errorf("at saturation: %+v", all)
	}
	for i := range run.Records {
		if run.Records[i].Condition == run.Conditions[1] {
			run.Records[i].Rate = 1000
		}
	}
	run.Conditions[1].Rate = 1000
	if all := New(run).Judge(bounds); len(all) != 1 || all[0].Outcome != stat.Holds ||
		!strings.Contains(all[0].Text, " requests/s") {
		t.Errorf("at a fixed rate: %+v", all)
	}
}
