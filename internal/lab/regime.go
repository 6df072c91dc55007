package lab

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	loadreport "github.com/tarehq/tare/load/report"
)

// Rate is the fixed rate of the trials that follow those at saturation. All contenders have the
// same rate, so that their latencies can be compared. The slowest one must be able to serve it. The
// zero value means no such trials.
type Rate struct {
	// Share is the rate divided by the slowest contender's rate at saturation, above 0 and below 1.
	Share float64 `yaml:"share"`
	// PerSecond is the rate in requests per second. It replaces Share.
	PerSecond float64 `yaml:"-"`
	// Measure is the measured time of each trial, at most that of the trials at saturation; 0 is
	// equal to it. It is longer beside other programs: see disturbedRate.
	Measure yamlfile.Duration `yaml:"measure"`
}

// ParseRate parses a share of the slowest contender's rate such as 50%, a number of requests per
// second, or off.
func ParseRate(text string) (r Rate, err error) {
	if text == "off" {
		return r, nil
	}
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	switch {
	case err == nil && percent && v > 0 && v < 100:
		return Rate{Share: v / 100}, nil
	case err == nil && !percent && v > 0 && v <= mostRate:
		return Rate{PerSecond: v}, nil
	}
	return r, fmt.Errorf("want a share such as 50%%, a number of requests per second up to %d, or off; got %q", mostRate, text)
}

// mostRate is more than a generator can send on one machine. A higher number is a typing error.
const mostRate = 10_000_000

// IsSet reports whether trials at a fixed rate follow.
func (r *Rate) IsSet() bool { return r.Share > 0 || r.PerSecond > 0 }

// farSlower is the share of the control's rate below which a contender has no trials at a fixed
// rate. A rate that it could serve would not load the others.
const farSlower = 0.1

// If other programs used the CPUs at saturation, trials at a fixed rate measure disturbedRate times as
// long, up to disturbedMeasure. A server that waits between requests then finds its caches full of
// others' data: beside a compiler on both cores, and more programs, the interval of two equal
// contenders had a half width of 16 to 36 % with 500 ms, and of 3 to 10 % with 2 s.
const (
	disturbedRate    = 6
	disturbedMeasure = 3 * time.Second
)

// fixedRate returns a share of the slowest contender's rate at saturation, rounded down to two
// digits; 0 without contenders. It also returns that contender and those that are left out because
// they are far slower than the control.
func fixedRate(all []*analyze.Row, share float64) (rate float64, slowest *analyze.Row, left []*analyze.Row) {
	var reference float64
	for _, row := range all {
		if row.Kind == sample.Control {
			reference = row.PerSecond.Mid
		}
	}
	for _, row := range all {
		if row.PerSecond.Mid < farSlower*reference {
			left = append(left, row)
		} else if slowest == nil || row.PerSecond.Mid < slowest.PerSecond.Mid {
			slowest = row
		}
	}
	if slowest == nil || !(slowest.PerSecond.Mid > 0) {
		return 0, nil, left
	}
	v := share * slowest.PerSecond.Mid
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Floor(v/unit) * unit, slowest, left
}

// atRate runs the trials at a fixed rate: for each number of cores with the first number of
// connections, in as many blocks as at saturation.
func (w *runner) atRate(ctx context.Context) error {
	if !w.trials.Rate.IsSet() {
		return nil
	}
	var conditions []sample.Condition
	left := make(map[slot]bool) // contenders that a condition leaves out
	a := analyze.Analyze(w.run)
	for i := range a.Tables {
		t := &a.Tables[i]
		if !slices.ContainsFunc(conditions, func(c sample.Condition) bool { return c.Cores == t.Cores }) {
			if c := w.rateCondition(t, left); c.Rate > 0 {
				conditions = append(conditions, c)
			}
		}
	}
	if len(conditions) == 0 {
		return nil
	}
	w.run.Conditions = append(w.run.Conditions, conditions...)
	w.run.RateMeasure = w.bench.Measure
	if m := time.Duration(w.trials.Rate.Measure); m > 0 {
		w.run.RateMeasure = min(m, w.bench.Measure)
	}
	if slices.ContainsFunc(a.Tables, func(t analyze.Table) bool { return t.Others() > 0 }) {
		w.run.RateMeasure = min(disturbedRate*w.run.RateMeasure, max(w.run.RateMeasure, disturbedMeasure))
	}
	members := func(c sample.Condition) []string {
		return slices.DeleteFunc(w.present(), func(name string) bool { return left[slot{c, name}] })
	}
	return w.carryOut(ctx, &series{
		what: " at a fixed rate, after the trials at saturation,", conditions: conditions,
		blocks: w.trials.Blocks, measure: w.inTurns(w.run.RateMeasure, false, members), keep: w.keep,
	})
}

// rateCondition determines the rate from the trials at saturation, and adds a note about it. It adds
// the contenders that cannot serve that rate to left.
func (w *runner) rateCondition(t *analyze.Table, left map[slot]bool) sample.Condition {
	c := t.Condition
	if c.Rate = w.trials.Rate.PerSecond; c.Rate > 0 {
		return c
	}
	all := slices.DeleteFunc(t.Measured(), func(row *analyze.Row) bool {
		return row.Kind == sample.Twin || w.contenders[row.Name] == nil
	})
	rate, slowest, slow := fixedRate(all, w.trials.Rate.Share)
	if c.Rate = rate; rate == 0 {
		return c
	}
	w.recorder.Note("The rate of %s requests/s is %.0f %% of what the slowest, %s, can serve with %s.",
		loadreport.Count(rate), 100*w.trials.Rate.Share, slowest.Title, t.Text())
	var titles []string
	for _, row := range slow {
		left[slot{c, row.Name}] = true
		titles = append(titles, row.Title)
	}
	if len(titles) > 0 {
		w.recorder.Note("Not loaded at that rate, because they serve less than a tenth of what %s does: %s.",
			w.run.Entrant(w.experiment.Control).Title, strings.Join(titles, ", "))
	}
	return c
}

// present returns the names of the contenders that take part, in the order of the entrants.
func (w *runner) present() (names []string) {
	for _, e := range w.run.Entrants {
		if w.contenders[e.Name] != nil {
			names = append(names, e.Name)
		}
	}
	return names
}
