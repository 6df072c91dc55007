package analyze_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

const rounds = 6

// records returns eight starts of a contender. cost is the CPU time of a slice in microseconds, and
// change may alter each slice.
func records(cost float64, change func(start, round int, s *sample.Slice)) (all []*sample.Record) {
	for start := range 8 {
		r := &sample.Record{
			Condition: sample.Condition{Cores: 1, Connections: 8},
			Load:      &load.Result{Requests: 1000 * rounds, Seconds: 1},
		}
		for round := range rounds {
			wobble := 1 + 0.01*float64((start+round)%3-1)
			s := sample.Slice{Round: round + 1, Elapsed: 50 * time.Millisecond, Requests: 1000, Probe: 1000,
				CPU: map[string]time.Duration{"application": time.Duration(cost * wobble * 1e6)}}
			if change != nil {
				change(start, round, &s)
			}
			r.Slices = append(r.Slices, s)
		}
		all = append(all, r)
	}
	return all
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s: %v, want %v within %v", what, got, want, within)
	}
}

func TestSlicesAreComparedWithinTheirRound(t *testing.T) {
	drift := func(_, round int, s *sample.Slice) {
		s.CPU["application"] *= time.Duration(1 + round)
	}
	of, than := records(22, drift), records(20, drift)
	of[0].Slices = of[0].Slices[3:] // three rounds without a partner
	of[1] = nil
	got := analyze.Weights(of, than, analyze.Weight)
	near(t, "ratio", got.Mid, 1.1, 1e-6)
	if got.SliceCount != 7*rounds-3 || got.Others > 0 || got.Shifted {
		t.Errorf("%+v", got)
	}
}

func TestProbeCorrectsWeightsUnlessAContenderSlowsIt(t *testing.T) {
	slow := func(share float64) func(start, round int, s *sample.Slice) {
		return func(start, round int, s *sample.Slice) {
			if (start+round)%2 == 0 { // the processor is slower, and so is the probe
				s.Probe = time.Duration(float64(s.Probe) * share)
				s.CPU["application"] = time.Duration(float64(s.CPU["application"]) * share)
			}
		}
	}
	got := analyze.Weights(records(10, slow(1.2)), records(10, nil), analyze.Weight)
	if !got.Shifted { // the probe took 10 % longer on average beside the first
		t.Errorf("a shifted probe was used: %+v", got)
	}
	other := func(start, round int, s *sample.Slice) { slow(1.2)(start+1, round, s) }
	got = analyze.Weights(records(10, slow(1.2)), records(10, other), analyze.Weight)
	near(t, "corrected ratio", got.Mid, 1, 0.01)
	if got.Shifted || got.Slices > 0.05 { // 18 % uncorrected
		t.Errorf("%+v", got)
	}
}

func TestDisturbedSlicesAreLeftOutUnlessMostAre(t *testing.T) {
	disturbed := func(starts int) func(start, round int, s *sample.Slice) {
		return func(start, _ int, s *sample.Slice) {
			if start < starts {
				s.CPU["application"] *= 2
				s.Others = s.Elapsed / 2
			}
		}
	}
	few := analyze.Weights(records(10, disturbed(1)), records(10, nil), analyze.Weight)
	near(t, "one start disturbed", few.Mid, 1, 0.001)
	if few.Others > 0 || few.SliceCount != 7*rounds {
		t.Errorf("%+v", few)
	}
	many := analyze.Weights(records(10, disturbed(5)), records(10, nil), analyze.Weight)
	near(t, "others beside five starts", many.Others, 0.5*5/8/2, 1e-9)
}

// Other programs widen the interval of a ratio by its distance from 1, and that of equals hardly.
func TestOthersWidenIntervalsByTheDistanceFromOne(t *testing.T) {
	beside := func(of, than, share, rate float64) stat.Interval {
		change := func(start, _ int, s *sample.Slice) {
			s.CPU["application"] += time.Duration(start%3-1) * s.CPU["application"] / 20
			s.Others = time.Duration(share * float64(s.Elapsed))
		}
		all := records(of, change)
		for _, r := range all {
			r.Rate = rate
		}
		return analyze.Weights(all, records(than, nil), analyze.Weight).Interval
	}
	for _, c := range []struct{ ratio, share, rate, lower, upper float64 }{
		{0.978, 0.66, 0, 1.006, 1.006}, {0.399, 0.66, 0, 1.164, 1.164}, {1.62, 0.66, 0, 1.083, 1.083},
		{0.44, 5, 0, 1.51, 1.51}, {0.44, 0.2, 0, 1, 1},
		{0.44, 5, 100, 2.28, 1.51}, {1.62, 5, 100, 1.273, 1.61}, // others move them towards 1
	} {
		calm, busy := beside(100*c.ratio, 100, 0, c.rate), beside(100*c.ratio, 100, c.share, c.rate)
		near(t, fmt.Sprintf("lower bound of %v", c.ratio), calm.Lo/busy.Lo, c.lower, 0.01)
		near(t, fmt.Sprintf("upper bound of %v", c.ratio), busy.Hi/calm.Hi, c.upper, 0.01)
	}
	if calm, busy := beside(100, 100, 0, 0), beside(100, 100, 1, 0); busy.Hi/calm.Hi < 1.005 {
		t.Errorf("equals beside half a CPU: %v, without %v", busy, calm)
	}
}

func TestWholeTrialsAreStartsOfOneValue(t *testing.T) {
	of, than := records(30, nil), records(10, nil)
	rates := analyze.Rates(of, than)
	near(t, "rates", rates.Mid, 1, 1e-9)
	for i := range of {
		of[i].Slices, than[i].Slices = nil, nil
		of[i].Load.Requests = 3000
	}
	rates = analyze.Rates(of, than)
	near(t, "rates of trials", rates.Mid, 0.5, 1e-9)
}

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
