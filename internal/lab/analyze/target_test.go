package analyze_test

import (
	"math"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load/hist"
)

// targetRun returns a run of one condition in which a request of tare costs 22 µs and one of nginx
// 20, with eight starts each.
func targetRun(targets ...sample.Target) *sample.Run {
	c := sample.Condition{Cores: 1, Connections: 8, Scenario: sample.Scenario{Name: "row"}}
	run := &sample.Run{Blocks: 8, Conditions: []sample.Condition{c}, Targets: targets}
	for name, cost := range map[string]float64{"tare": 22, "nginx": 20} {
		run.Entrants = append(run.Entrants, sample.Entrant{Name: name})
		for i, r := range records(cost, nil) {
			r.Block, r.Condition, r.Contender = i+1, c, name
			run.Records = append(run.Records, *r)
		}
	}
	return run
}

func TestTargetsStandAtTheirLimits(t *testing.T) {
	cpu := sample.Target{Row: "row", Contender: "tare", Metric: sample.CPU, Reference: "nginx"}
	most := func(v float64) sample.Limit { return sample.Limit{Value: v} }
	least := func(v float64) sample.Limit { return sample.Limit{Value: v, Least: true} }
	for _, test := range []struct {
		name    string
		require sample.Limit
		change  func(*sample.Target)
		want    analyze.Standing
	}{
		{"within", most(1.2), nil, analyze.Met},
		{"beyond", most(1.05), nil, analyze.Missed},
		{"at least", least(1.05), nil, analyze.Met},
		{"below", least(1.2), nil, analyze.Missed},
		{"none", sample.Limit{}, nil, analyze.Unlimited},
		{"no such reference", most(1), func(t *sample.Target) { t.Reference = "h2o" }, analyze.Unmeasured},
		{"no such row", most(1), func(t *sample.Target) { t.Row = "other" }, analyze.Unmeasured},
		{"not counted", most(1), func(t *sample.Target) { t.Metric = sample.Calls }, analyze.Unmeasured},
		{"not idle", most(1), func(t *sample.Target) { t.Metric, t.Reference = sample.Memory, "" }, analyze.Unmeasured},
	} {
		target := cpu
		target.Require = test.require
		if test.change != nil {
			test.change(&target)
		}
		a := analyze.Analyze(targetRun(target))
		if len(a.Targets) != 1 || a.Targets[0].Standing != test.want {
			t.Errorf("%s: got %+v, want %v", test.name, a.Targets, test.want)
		}
	}
	a := analyze.Analyze(targetRun(sample.Target{Row: "row", Contender: "tare", Metric: sample.CPU, Reference: "nginx",
		Require: most(1)}))
	near(t, "ratio", a.Targets[0].Value.Mid, 1.1, 1e-6)
	if len(a.Tables) > 0 {
		t.Error("targets have tables of conditions, too")
	}
}

// Other programs widen the intervals of latencies, too.
func TestOthersWidenIntervalsOfLatencies(t *testing.T) {
	p99 := func(others time.Duration) stat.Interval {
		run := targetRun(sample.Target{Row: "row", Contender: "tare", Metric: sample.P99, Reference: "nginx"})
		for i := range run.Records {
			r := &run.Records[i]
			r.Load.Latency = hist.New()
			r.Load.Latency.Record(time.Duration(10+r.Block%3) * time.Millisecond)
			if r.Contender == "tare" {
				r.Load.Latency.Record(time.Duration(30+r.Block%4) * time.Millisecond)
			}
			for j := range r.Slices {
				r.Slices[j].Others = others
			}
		}
		return analyze.Analyze(run).Targets[0].Value
	}
	calm, busy := p99(0), p99(25*time.Millisecond)
	by := math.Pow(calm.Mid, 0.25) // half a CPU
	near(t, "lower bound", calm.Lo/busy.Lo, by, 0.001)
	near(t, "upper bound", busy.Hi/calm.Hi, by, 0.001)
}

// Fewer than five starts have no interval, so nothing is shown.
func TestFewStartsShowNothing(t *testing.T) {
	run := targetRun(sample.Target{Row: "row", Contender: "tare", Metric: sample.CPU, Reference: "nginx",
		Require: sample.Limit{Value: 0.5}})
	var first []sample.Record
	for _, r := range run.Records {
		if r.Block == 1 {
			first = append(first, r)
		}
	}
	run.Records = first
	if r := analyze.Analyze(run).Targets[0]; r.Standing != analyze.Open || r.Starts != 1 {
		t.Errorf("%+v", r)
	}
}
