package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
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
	if math.Abs(row.Ratio.Mid-1.1) > 0.01 || row.Ratio.Finding() != stat.More || row.Slices != 48 || row.SliceSpread < 0.005 ||
		row.SliceSpread > 0.03 || row.StartSpread > 0.01 {
		t.Errorf("%+v, %v of %d slices, spreads %v and %v", row.Ratio, row.Ratio.Finding(), row.Slices, row.SliceSpread,
			row.StartSpread)
	}
	testkit.Equal(t, rowOf(t, run, "twin").Ratio.Finding(), stat.Same, "twin")
	testkit.Contains(t, New(run).Tables[0].VariationNote(), "48 slices")
}

// A few disturbed slices are left out. With many, the interval is wider, and the verdict and the
// first screen say so in one line.
func TestDisturbedSlicesAreLeftOutOrWarnedOf(t *testing.T) {
	few := rowOf(t, slicesRun(1.1, 0.5, func(start, _ int) bool { return start == 0 }), "way")
	if math.Abs(few.Ratio.Mid-1.1) > 0.01 || few.Ratio.Finding() != stat.More || few.Slices != 42 {
		t.Errorf("few disturbed slices: %+v, %v of %d slices", few.Ratio, few.Ratio.Finding(), few.Slices)
	}
	busy := func(start, _ int) bool { return start < 3 }
	run := slicesRun(1.1, 0.5, busy)
	many, calm := rowOf(t, run, "way"), rowOf(t, slicesRun(1.1, 0, busy), "way")
	const others = "Other programs used 0.19 of a CPU, so the intervals are wider."
	if many.Ratio.Lo >= calm.Ratio.Lo || many.Ratio.Hi <= calm.Ratio.Hi ||
		!strings.Contains(strings.Join(many.Warnings, " "), "other programs") {
		t.Errorf("many disturbed slices: %+v, without others %+v, %q", many.Ratio, calm.Ratio, many.Warnings)
	}
	var b strings.Builder
	if err := New(run).WriteBrief(&b); err != nil || !strings.Contains(b.String(), "\n"+others+"\n") ||
		!strings.HasSuffix(New(run).Verdict(), others) {
		t.Errorf("%v, %s\n%s", err, New(run).Verdict(), b.String())
	}
	if much := rowOf(t, slicesRun(3, 0.5, busy), "way"); much.Ratio.Finding() != stat.More || much.Others == 0 {
		t.Errorf("large difference, disturbed: %+v, %v", much.Ratio, much.Ratio.Finding())
	}
	if hardly := rowOf(t, slicesRun(1.1, 0.1, func(int, int) bool { return true }), "way"); !hardly.Ratio.Known() ||
		hardly.Slices != 48 {
		t.Errorf("hardly disturbed: %+v of %d slices", hardly.Ratio, hardly.Slices)
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
		alone.Alone, alone.Slices, alone.Costs = sample.ForComparison, nil, costs(60*time.Millisecond)
		if r.Contender == "way" {
			alone.Alone, alone.Costs = "a hiccup", costs(120*time.Millisecond) // twice the control's
			*r = alone
		} else {
			run.Records = append(run.Records, alone)
		}
	}
	row := rowOf(t, run, "way")
	want := math.Exp((7*math.Log(1.5) + math.Log(2)) / 8)
	if row.Trials != 8 || row.Slices != 7*6+1 || math.Abs(row.Ratio.Mid-want) > 0.01 || len(row.Limits) != 1 ||
		row.Limits[0] != "measured alone in 1 of 8 blocks: a hiccup" {
		t.Errorf("%d trials, %d slices, %+v, want %v; %q", row.Trials, row.Slices, row.Ratio, want, row.Limits)
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
	var b strings.Builder
	if err := New(run).WriteBrief(&b); err != nil ||
		!strings.Contains(b.String(), "way: measured alone in 8 of 8 blocks: it does not sleep\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if twin := rowOf(t, run, "twin"); twin.Slices != 48 ||
		!strings.Contains(strings.Join(twin.Warnings, " "), "0.9 % of a CPU") {
		t.Errorf("%d slices, %q", twin.Slices, twin.Warnings)
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
