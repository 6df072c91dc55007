package lab

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// The fixed rate is a share of the slowest contender's rate. Contenders that are far slower than
// the control do not count.
func TestFixedRateIsShareOfSlowestContender(t *testing.T) {
	of := func(rates map[string]float64) (all []capacity) {
		for _, name := range []string{"control", "a", "b"} {
			if v, ok := rates[name]; ok {
				all = append(all, capacity{name, strings.ToUpper(name), v})
			}
		}
		return all
	}
	for _, test := range []struct {
		rates   map[string]float64
		share   float64
		want    float64
		slowest string
		left    string
	}{
		{map[string]float64{"control": 50_000, "a": 24_710}, 0.5, 12_000, "a", ""},
		{map[string]float64{"control": 50_000, "a": 90_000}, 0.5, 25_000, "control", ""},
		{map[string]float64{"control": 50_000, "a": 5_000, "b": 4_999}, 0.5, 2_500, "a", "b"},
		{map[string]float64{"control": 50_000, "a": 300, "b": 20}, 0.9, 45_000, "control", "a b"},
		{map[string]float64{"control": 7}, 0.5, 3.5, "control", ""},
		{map[string]float64{}, 0.5, 0, "", ""},
	} {
		rate, slowest, left := fixedRate(of(test.rates), "control", test.share)
		var names []string
		for _, s := range left {
			names = append(names, s.name)
		}
		if math.Abs(rate-test.want) > 1e-9*test.want || slowest.name != test.slowest ||
			strings.Join(names, " ") != test.left {
			t.Errorf("%v: %v, the slowest is %q, left are %v; want %+v", test.rates, rate, slowest.name, names, test)
		}
	}
}

func TestParseRateParsesSharesAndRates(t *testing.T) {
	for text, want := range map[string]Rate{
		"off": {}, "50%": {Share: 0.5}, "2.5%": {Share: 0.025}, "2000": {PerSecond: 2000},
	} {
		if got, err := ParseRate(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "fast", "0", "-5", "100%", "0%", "%", "NaN", "Inf", "1e9"} {
		if got, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), "want a share such as 50%") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// The values of an axis are sorted and unique. The number of processors replaces 0.
func TestSweepConditionsAreSortedAndUnique(t *testing.T) {
	values := func(s Sweep, cpus int) string {
		var texts []string
		for _, c := range s.conditions(cpus) {
			v := max(c.Procs, c.Workers)
			if s.Axis == sample.Connections {
				v = c.Connections
			} else if c.Connections != 8 {
				t.Errorf("%+v", c)
			}
			texts = append(texts, itoa(v))
		}
		return strings.Join(texts, ", ")
	}
	procs := Sweep{Axis: sample.GOMAXPROCS, Values: []SweepValue{1, 0, 4, 8}, Connections: 8}
	for cpus, want := range map[int]string{
		1: "1, 4, 8", 2: "1, 2, 4, 8", 4: "1, 4, 8", 6: "1, 4, 6, 8", 16: "1, 4, 8, 16",
	} {
		if got := values(procs, cpus); got != want {
			t.Errorf("%d processors: %s, want %s", cpus, got, want)
		}
	}
	if got := values(Sweep{
		Axis: sample.Workers, Values: []SweepValue{16, 0}, Connections: 8,
	}, 2); got != "2, 16" {
		t.Error(got)
	}
	if got := values(Sweep{Axis: sample.Connections, Values: []SweepValue{64, 2, 8}}, 2); got != "2, 8, 64" {
		t.Error(got)
	}
}

func itoa(n int) string { return Cores(n).String() }

// Sweeps are carried out on request, and with the full trials.
func TestOptionsDetermineSweeps(t *testing.T) {
	for _, test := range []struct {
		full  bool
		sweep []string
		want  string
	}{
		{false, nil, ""},
		{true, nil, "gomaxprocs connections workers"},
		{true, []string{SweepOff}, ""},
		{false, []string{SweepAll}, "gomaxprocs connections workers"},
		{false, []string{"workers", "connections"}, "connections workers"},
		{true, []string{"workers"}, "workers"},
	} {
		w := &runner{Options: Options{Full: test.full, Sweep: test.sweep}}
		got := slices.DeleteFunc(sample.Axes(), func(axis string) bool { return !w.wantsSweep(axis) })
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
	if err := CheckSweep([]string{"all", "cores"}); err == nil || !strings.Contains(err.Error(), `got "cores"`) {
		t.Error(err)
	}
}

// A sweep has at most the blocks and the measured time of the trials at saturation, and only
// contenders that take part.
func TestSweepIsLimitedByTrials(t *testing.T) {
	w := measured(6, 0)
	w.contenders = nil
	w.cpus = []int{0, 1}
	w.trials.Measure = yamlfile.Duration(300 * time.Millisecond)
	s := &Sweep{
		Axis: sample.Connections, Values: []SweepValue{1, 9}, Contenders: []string{"control"}, Blocks: 2,
		Measure: yamlfile.Duration(time.Second),
	}
	r := w.swept(s)
	if r.Blocks != 2 || r.Measure != 300*time.Millisecond || len(r.Conditions) != 2 || len(r.Contenders) != 0 {
		t.Errorf("%+v", r)
	}
	w.Full = true
	if r := w.swept(s); r.Blocks != w.trials.Blocks {
		t.Errorf("%d blocks", r.Blocks)
	}
	s.Cores = 3
	if r := w.swept(s); len(r.Conditions) != 0 {
		t.Errorf("on 3 of 2 processors: %+v", r.Conditions)
	}
	if files := trial.OpenFiles(); files < 1<<30 {
		s.Cores, s.Values = 1, []SweepValue{1, SweepValue(files)}
		if r := w.swept(s); len(r.Conditions) != 1 ||
			!strings.Contains(strings.Join(w.run.Notes, " "), "need more open files") {
			t.Errorf("%v, notes %q", r.Conditions, w.run.Notes)
		}
	}
}
