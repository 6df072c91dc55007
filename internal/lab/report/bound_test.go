package report

import (
	"math"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

func TestParseBounds(t *testing.T) {
	for text, want := range map[string]string{
		"cpu>+3%":                      "cpu>+3%",
		"rps<-5%":                      "rps<-5%",
		"p99>+10%,p50>+2.5%":           "p99>+10% p50>+2.5%",
		"errors>0":                     "errors>0",
		" cpu > +3 % , errors > 12 ":   "cpu>+3% errors>12",
		"cpu>-1%":                      "cpu>-1%",
		"cpu>+3%,rps<-5%,p99>+10%":     "cpu>+3% rps<-5% p99>+10%",
		"cpu>+0%":                      "cpu>+0%",
		"cpu>+300%,errors>4000000":     "cpu>+300% errors>4e+06",
		"cpu>+3%,cpu>+5%":              "cpu>+3% cpu>+5%",
		"rps<+5%":                      "rps<+5%",
		"p50<-99.9%":                   "p50<-99.9%",
		"p99>+1e1%":                    "p99>+10%",
		"errors>0,p99>+10%,  rps<-5 %": "errors>0 p99>+10% rps<-5%",
	} {
		bounds, err := ParseBounds(text)
		var got []string
		for _, b := range bounds {
			got = append(got, b.String())
		}
		if s := strings.Join(got, " "); err != nil || s != want {
			t.Errorf("%q: got %q, %v, want %q", text, s, err, want)
		}
	}
}

func TestParseBoundsRejectsInvalidBounds(t *testing.T) {
	const change = "want a signed change in percent, such as"
	for text, want := range map[string]string{
		"":              `"": want a measure, > or <, and a change, such as cpu>+3%`,
		"cpu":           `"cpu": want a measure`,
		"cpu>+3%,":      `"": want a measure`,
		"cpu=3%":        `"cpu=3%": want a measure`,
		"ram>+3%":       `unknown measure "ram": want cpu, rps, p50, p99 or errors`,
		">+3%":          `unknown measure "": want`,
		"cpu>3%":        change,
		"cpu>+3":        change,
		"cpu>+%":        change,
		"cpu>%":         change,
		"cpu>+x%":       change,
		"cpu>+NaN%":     change,
		"cpu>+Inf%":     change,
		"rps<-100%":     change,
		"cpu>=+3%":      change,
		"cpu>+3%>":      change,
		"errors<1":      `"errors<1": want > and a number, such as errors>0`,
		"errors>+1%":    "want > and a number",
		"errors>-1":     "want > and a number",
		"errors>0.5":    "want > and a number",
		"cpu>+3% extra": change,
	} {
		if bounds, err := ParseBounds(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want %q", text, bounds, err, want)
		}
	}
}

// A bound is violated, or holds, only if the whole interval says so.
func TestBoundsAreDecidedByWholeIntervals(t *testing.T) {
	inf := math.Inf(1)
	for _, test := range []struct {
		bound       string
		lo, mid, hi float64
		want        Outcome
	}{
		{"cpu>+3%", 1.04, 1.05, 1.06, Violated},
		{"cpu>+3%", 1.02, 1.05, 1.06, Undecided}, // likely, but not shown
		{"cpu>+3%", 1.03, 1.05, 1.06, Undecided}, // reaches the bound
		{"cpu>+3%", 0.5, 0.5, 0.5, Holds},
		{"cpu>+3%", 0.9, 1, 1.03, Holds},
		{"cpu>+3%", 4, 5, 6, Violated},
		{"rps<-5%", 0.90, 0.92, 0.94, Violated},
		{"rps<-5%", 0.90, 0.92, 0.96, Undecided},
		{"rps<-5%", 0.90, 0.92, 0.95, Undecided},
		{"rps<-5%", 1.1, 1.2, 1.3, Holds},
		{"p99>+10%", 1.2, 1.3, 1.4, Violated},
		{"p50>+10%", 0.9, 1.3, 1.4, Undecided},
		{"cpu>-10%", 0.95, 1, 1.05, Violated}, // requires a reduction by a tenth
		{"cpu>-10%", 0.80, 0.85, 0.88, Holds},
		{"cpu>+3%", -inf, 5, inf, Undecided}, // too few blocks
		{"cpu>+3%", 1.5, math.NaN(), 1.6, Undecided},
		{"rps<-5%", -inf, 0.1, inf, Undecided},
	} {
		bounds, err := ParseBounds(test.bound)
		if err != nil {
			t.Fatal(err)
		}
		c := analyze.Change{Metric: bounds[0].Metric, Ratio: stat.Interval{Lo: test.lo, Mid: test.mid, Hi: test.hi}}
		if got := bounds[0].Outcome(c); got != test.want {
			t.Errorf("%s with %v: %v, want %v", test.bound, c.Ratio, got, test.want)
		}
	}
	for count, want := range map[uint64]Outcome{0: Holds, 1: Holds, 2: Violated} {
		b := Bound{Metric: sample.Errors, Above: true, Percent: 1}
		if got := b.Outcome(analyze.Change{Metric: sample.Errors, Count: count}); got != want {
			t.Errorf("%s with %d: %v, want %v", b, count, got, want)
		}
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
	} {
		bounds, err := ParseBounds(test.bounds)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckBounds(bounds, test.blocks, test.atRate); (err == nil) != (test.want == "") ||
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
	bounds, err := ParseBounds("cpu>+3%,rps<-5%,errors>0")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		factors []float64
		want    string // of cpu
		verdict string
	}{
		{"slower", []float64{2, 2.1, 2.2, 1.9, 2, 2.05}, "cpu>+3%: FAILED: CPU time per request: +10",
			"A request costs 10"},
		{"wavering", []float64{1.1, 1.25, 1.4, 0.9, 1.1, 1},
			"cpu>+3%: undecided: CPU time per request: +11.", "This run cannot tell"},
		{"equal", []float64{1, 1, 1, 1, 1, 1}, "cpu>+3%: holds: CPU time per request: +0.0 %",
			"A request costs the same CPU time with B"},
		{"few blocks", []float64{5, 5}, "cpu>+3%: undecided: CPU time per request: +400.0 % (no interval)",
			"This run cannot tell"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := New(twoBuilds(test.factors...))
			all := a.Judge(bounds)
			if len(all) != len(bounds)*len(a.Tables) {
				t.Fatal(all)
			}
			if !strings.HasPrefix(all[0].Text, test.want) || !strings.Contains(test.want, all[0].Outcome.String()) {
				t.Errorf("got %q, %v, want %q", all[0].Text, all[0].Outcome, test.want)
			}
			if last := all[len(all)-1]; last.Outcome != Holds { // errors
				t.Errorf("equal figures: %+v", last)
			}
			if v := a.Verdict(); !strings.HasPrefix(v, test.verdict) {
				t.Errorf("verdict %q, want %q", v, test.verdict)
			}
		})
	}
	alone := twoBuilds(1)
	alone.Records = alone.Records[:1]
	for _, j := range New(alone).Judge(bounds) {
		if j.Outcome != Undecided || !strings.Contains(j.Text, "not both measured") {
			t.Errorf("judged an unmeasured build: %+v", j)
		}
	}
}

// Latencies at saturation are not judged.
func TestLatenciesAreJudgedAtAFixedRate(t *testing.T) {
	run := twoBuilds(1, 1, 1, 1, 1, 1)
	bounds := []Bound{{Metric: sample.P99, Above: true, Percent: 10}}
	if all := New(run).Judge(bounds); len(all) != 1 || all[0].Outcome != Undecided {
		t.Errorf("at saturation: %+v", all)
	}
	for i := range run.Records {
		if run.Records[i].Condition == run.Conditions[1] {
			run.Records[i].Rate = 1000
		}
	}
	run.Conditions[1].Rate = 1000
	if all := New(run).Judge(bounds); len(all) != 1 || all[0].Outcome != Holds ||
		!strings.Contains(all[0].Text, " requests/s") {
		t.Errorf("at a fixed rate: %+v", all)
	}
}
