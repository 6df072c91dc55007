package analyze

import (
	"slices"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
)

// SweepResult is the result of a sweep.
type SweepResult struct {
	*sample.Sweep
	Lines []SweepLine // of measured contenders
}

// SweepLine has the results of one contender along the axis.
type SweepLine struct {
	*sample.Entrant
	Points []SweepPoint // one for each condition
}

// SweepPoint is the result of a contender at one value of the axis.
type SweepPoint struct {
	Label     string
	Trials    int
	WeightUs  Range
	PerSecond Range
	Failure   string // of the last trial; "" if it succeeded
}

// Range is the median, lowest and highest value of trials. Sweeps have too few blocks for
// intervals.
type Range struct{ Mid, Lo, Hi float64 }

func newRange(v []float64) (r Range) {
	if len(v) == 0 {
		return r
	}
	return Range{stat.Median(v).Mid, slices.Min(v), slices.Max(v)}
}

// Below reports whether all trials of r were below all of s.
func (r Range) Below(s Range) bool { return r.Hi < s.Lo }

// SweepResults returns the results of the run's sweeps.
func (a *Analysis) SweepResults() (all []SweepResult) {
	for i := range a.Sweeps {
		s := SweepResult{Sweep: &a.Sweeps[i]}
		for _, name := range s.Contenders {
			if e := a.Entrant(name); e != nil {
				if line := a.sweepLine(s.Sweep, e); slices.ContainsFunc(line.Points,
					func(p SweepPoint) bool { return p.Trials > 0 || p.Failure != "" }) {
					s.Lines = append(s.Lines, line)
				}
			}
		}
		if len(s.Lines) > 0 {
			all = append(all, s)
		}
	}
	return all
}

func (a *Analysis) sweepLine(s *sample.Sweep, e *sample.Entrant) SweepLine {
	line := SweepLine{Entrant: e, Points: make([]SweepPoint, len(s.Conditions))}
	for i, c := range s.Conditions {
		var weights, rates []float64
		p := &line.Points[i]
		p.Label = s.Labels[i]
		for j := range a.Records {
			r := &a.Records[j]
			if r.Contender != e.Name || r.Condition != c {
				continue
			}
			if p.Failure = r.Failure; r.Timed() {
				weights, rates = append(weights, r.WeightUs()), append(rates, r.Load.PerSecond())
			}
		}
		p.Trials, p.WeightUs, p.PerSecond = len(weights), newRange(weights), newRange(rates)
	}
	return line
}

// Ends returns the points with the lowest and the highest median, or nil if they are not shown to
// differ.
func (l *SweepLine) Ends(of func(*SweepPoint) Range) (low, high *SweepPoint) {
	for i := range l.Points {
		p := &l.Points[i]
		if p.Trials < 2 { // one trial has no range
			continue
		}
		if low == nil || of(p).Mid < of(low).Mid {
			low = p
		}
		if high == nil || of(p).Mid > of(high).Mid {
			high = p
		}
	}
	if low == nil || !of(low).Below(of(high)) || of(high).Mid < (1+stat.Margin)*of(low).Mid {
		return nil, nil
	}
	return low, high
}

// Swap returns the values at which a is shown to cost less than b, and more.
func Swap(a, b *SweepLine) (less, more string, ok bool) {
	for i := range a.Points {
		p, q := &a.Points[i], &b.Points[i]
		if p.Trials < 2 || q.Trials < 2 {
			continue
		}
		if less == "" && p.WeightUs.Below(q.WeightUs) {
			less = p.Label
		}
		if less != "" && more == "" && q.WeightUs.Below(p.WeightUs) {
			more = p.Label
		}
	}
	return less, more, less != "" && more != ""
}
