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
	if got.StartCount != 7 || got.SliceCount != 7*rounds-3 || got.Others > 0 || got.Shifted {
		t.Errorf("%+v", got)
	}
	if e := analyze.Excess(of, than, analyze.Weight); e.Lo <= 0 || e.Mid < 2 {
		t.Errorf("excess: %+v", e)
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
	if few.Others > 0 || few.StartCount != 7 {
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
