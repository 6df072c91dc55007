package lab

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/lab/report"
	"github.com/tarehq/tare/lab/trial"
	"github.com/tarehq/tare/lab/yamlfile"
	loadreport "github.com/tarehq/tare/load/report"
)

// Rate says at which fixed rate contenders are loaded when their trials at saturation are over.
// It is one rate for all, so that what they show can be compared, and below what the slowest can
// serve. The zero value is none.
type Rate struct {
	// Share is the rate as a share of what the slowest contender serves at saturation, above 0
	// and below 1.
	Share float64 `yaml:"share"`
	// PerSecond is the rate itself, in requests, in place of the share.
	PerSecond float64 `yaml:"-"`
	// Measure is how long each trial is measured, at most as long as the others; 0 is as long.
	Measure yamlfile.Duration `yaml:"measure"`
}

// ParseRate reads a share of what the slowest contender can serve, such as 50%, a number of
// requests a second, or off.
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
	return r, fmt.Errorf("want a share such as 50%%, a number of requests a second up to %d, or off; got %q", mostRate, text)
}

// mostRate can only be a slip: no generator asks more of one machine.
const mostRate = 10_000_000

// in reports whether there are to be trials at a fixed rate.
func (r *Rate) in() bool { return r.Share > 0 || r.PerSecond > 0 }

// served is what a contender can serve: the median of its rates at saturation.
type served struct {
	name, title string
	perSecond   float64
}

// farSlower is below which share of the control's rate a contender takes no part at a fixed
// rate: one that is slow enough for it would show nothing of the others.
const farSlower = 0.1

// fixedRate returns the rate that is a share of what the slowest contender can serve, who that
// is, and who is too slow to count. The rate is rounded down to two digits.
func fixedRate(all []served, control string, share float64) (rate float64, slowest served, left []served) {
	var reference float64
	for _, s := range all {
		if s.name == control {
			reference = s.perSecond
		}
	}
	for _, s := range all {
		if s.perSecond < farSlower*reference {
			left = append(left, s)
		} else if slowest.name == "" || s.perSecond < slowest.perSecond {
			slowest = s
		}
	}
	return roundDown(share * slowest.perSecond), slowest, left
}

// roundDown leaves two digits of a number.
func roundDown(v float64) float64 {
	if v <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Floor(v/unit) * unit
}

// atRate runs the trials at a fixed rate: for each number of cores with the first number of
// connections, in blocks like the others.
func (w *weighing) atRate(ctx context.Context) error {
	if !w.trials.Rate.in() {
		return nil
	}
	conditions, left := w.rateConditions()
	if len(conditions) == 0 {
		return nil
	}
	w.run.Conditions = append(w.run.Conditions, conditions...)
	w.run.RateMeasure = w.bench.Measure
	if m := time.Duration(w.trials.Rate.Measure); m > 0 {
		w.run.RateMeasure = min(m, w.bench.Measure)
	}
	members := func(c trial.Condition) (names []string) {
		for _, name := range w.present() {
			if !left[trial.Slot{Condition: c, Contender: name}] {
				names = append(names, name)
			}
		}
		return names
	}
	return w.aside(ctx, "at a fixed rate", conditions, members, w.trials.Blocks, w.run.RateMeasure)
}

// rateConditions are the conditions of the trials at a fixed rate, with those slots, without
// blocks, in which a contender takes no part.
func (w *weighing) rateConditions() (all []trial.Condition, left map[trial.Slot]bool) {
	left = make(map[trial.Slot]bool)
	a := report.Analyze(w.run)
	done := make(map[int]bool) // by cores
	for i := range a.Tables {
		t := &a.Tables[i]
		if done[t.Cores] {
			continue
		}
		done[t.Cores] = true
		c, without := w.rateCondition(t)
		if c.Rate == 0 {
			continue
		}
		all = append(all, c)
		for _, s := range without {
			left[trial.Slot{Condition: c, Contender: s.name}] = true
		}
	}
	return all, left
}

// rateCondition finds the rate for what was measured at saturation, and says how it was found.
func (w *weighing) rateCondition(t *report.Table) (c trial.Condition, left []served) {
	c = t.Condition
	if c.Rate = w.trials.Rate.PerSecond; c.Rate > 0 {
		return c, nil
	}
	var all []served
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Trials > 0 && row.Kind != report.Twin && w.contenders[row.Name] != nil { // the twin is the control
			all = append(all, served{row.Name, row.Title, row.PerSecond.Mid})
		}
	}
	rate, slowest, left := fixedRate(all, w.experiment.Control, w.trials.Rate.Share)
	if c.Rate = rate; rate == 0 {
		return c, nil
	}
	w.note("The rate of %s requests/s is %.0f %% of what the slowest, %s, can serve with %s.",
		loadreport.Count(rate), 100*w.trials.Rate.Share, slowest.title, report.ConditionText(t.Condition))
	if len(left) > 0 {
		var titles []string
		for _, s := range left {
			titles = append(titles, s.title)
		}
		w.note("What serves less than a tenth of what %s does is not loaded at that rate, because one that it could hold would show nothing of the others: %s.",
			w.entrant(w.experiment.Control).Title, strings.Join(titles, ", "))
	}
	return c, left
}

// present names the contenders that still take part, in the entrants' order.
func (w *weighing) present() (names []string) {
	for _, e := range w.run.Entrants {
		if w.contenders[e.Name] != nil {
			names = append(names, e.Name)
		}
	}
	return names
}
