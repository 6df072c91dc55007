package load

import (
	"cmp"
	"context"
	"math"
	"time"
)

// hunt is a Search under way. Its bracket has the highest rate that held, 0 if none, and the
// lowest that did not, 0 if none.
type searchState struct {
	Search
	plan           Plan
	found          *SearchResult
	low, high      float64
	generatorBound bool // the generator is to blame for high
}

func (h *searchState) search(ctx context.Context) error {
	start, err := h.start(ctx)
	if err == nil {
		err = h.bracket(ctx, start)
	}
	if err == nil {
		err = h.bisect(ctx)
	}
	if err == nil {
		err = h.confirm(ctx)
	}
	return err
}

// lowest is the lowest rate that is tried.
func (h *searchState) lowest() float64 { return min(minRequests/h.Step.Seconds(), h.top()) }

func (h *searchState) top() float64 { return cmp.Or(h.To, maxRate) }

// spent reports whether only the runs that confirm are left.
func (h *searchState) isExhausted() bool { return len(h.found.Tries)+h.Confirmations >= h.Runs }

// start returns the first rate to try.
func (h *searchState) start(ctx context.Context) (float64, error) {
	rate := h.From
	if rate == 0 {
		p := h.plan
		p.Duration = time.Duration(closedLoopShare * float64(h.Step))
		t, err := h.runPlan(ctx, p, Try{Purpose: ToStart})
		if err != nil {
			return 0, err
		}
		rate = t.Achieved / 2
	}
	return min(max(rate, h.lowest()), h.top()), nil
}

// bracket finds a rate that holds and one that does not.
func (h *searchState) bracket(ctx context.Context, rate float64) error {
	const up, down = 2, 4
	for !h.isExhausted() {
		held, err := h.tryTwice(ctx, rate, ToBracket)
		switch {
		case err != nil:
			return err
		case held && (h.high > 0 || rate == h.top()), !held && (h.low > 0 || rate <= h.lowest()):
			return nil
		case held:
			rate = min(rate*up, h.top())
		default:
			rate = max(rate/down, h.lowest())
		}
	}
	return nil
}

// isNarrow reports whether the bracket is as narrow as it is to be.
func (h *searchState) isNarrow() bool {
	precision := h.Precision
	if h.generatorBound {
		precision = max(precision, boundPrecision)
	}
	return h.high <= h.low*(1+precision)
}

// bisect brings the bracket together. Rates are compared by their ratios.
func (h *searchState) bisect(ctx context.Context) error {
	for h.low > 0 && h.high > 0 && !h.isNarrow() && !h.isExhausted() {
		if _, err := h.tryTwice(ctx, math.Sqrt(h.low*h.high), ToBisect); err != nil {
			return err
		}
	}
	return nil
}

// holds tries a rate, twice if it does not hold, and narrows the bracket. The generator is to
// blame if it was both times.
func (h *searchState) tryTwice(ctx context.Context, rate float64, purpose Purpose) (bool, error) {
	t, err := h.try(ctx, rate, purpose)
	if err == nil && !t.Held {
		first := t.Generator
		t, err = h.try(ctx, rate, purpose)
		t.Generator = t.Generator && first
	}
	switch {
	case err != nil:
		return false, err
	case t.Held:
		h.low = rate
	default:
		h.high, h.generatorBound = rate, t.Generator
	}
	return t.Held, nil
}

// confirm runs the rate found again, and lower ones as long as most runs do not hold: by as
// much as the precision, then twice as much and so on, so that a rate that held by luck does not
// take many runs.
func (h *searchState) confirm(ctx context.Context) error {
	verdict := h.verdict()
	for less := h.Precision; h.low > 0; less *= 2 {
		v, err := h.vote(ctx, h.low)
		switch {
		case err != nil || !v.decided():
			return err
		case v.held():
			h.found.Holds, h.found.Verdict = h.low, verdict
			return nil
		}
		h.high, h.generatorBound, h.low = h.low, v.generator == v.bad, h.below(h.low, less)
		if verdict = Settled; h.generatorBound {
			verdict = GeneratorBound
		}
	}
	h.found.Verdict = h.verdict()
	return nil
}

// below returns a lower rate; 0 if there is none.
func (h *searchState) below(rate, less float64) float64 {
	if rate <= h.lowest() {
		return 0
	}
	return max(rate*(1-less), h.lowest())
}

// verdict is what is to be said of the bracket once its lower end is confirmed, or if it has none.
func (h *searchState) verdict() Verdict {
	switch {
	case h.generatorBound:
		return GeneratorBound
	case h.low == 0 && h.high > 0 && h.high <= h.lowest():
		return NothingHolds
	case h.low > 0 && h.high == 0 && h.low == h.top():
		return AllHolds
	case h.low > 0 && h.high > 0 && h.isNarrow():
		return Settled
	}
	return Unsettled
}

// vote is how the runs that confirm a rate came out.
type vote struct {
	needed, good, bad int
	generator         int // bad ones for which it is to blame
}

func (v *vote) held() bool    { return 2*v.good > v.needed }
func (v *vote) decided() bool { return v.held() || 2*v.bad >= v.needed }

// vote runs a rate until most of the confirmations agree, or there are no more runs.
func (h *searchState) vote(ctx context.Context, rate float64) (v vote, err error) {
	v.needed = h.Confirmations
	for !v.decided() && len(h.found.Tries) < h.Runs {
		t, err := h.try(ctx, rate, ToConfirm)
		if err != nil {
			return v, err
		}
		if t.Held {
			v.good++
		} else {
			v.bad++
			if t.Generator {
				v.generator++
			}
		}
	}
	return v, nil
}

// try runs the plan at a rate.
func (h *searchState) try(ctx context.Context, rate float64, purpose Purpose) (Try, error) {
	p := h.plan
	p.Pace.Steps = Constant(rate).Steps
	p.Duration = h.Step
	return h.runPlan(ctx, p, Try{Rate: rate, Purpose: purpose})
}

// carryOut runs a plan and tells what came of it.
func (h *searchState) runPlan(ctx context.Context, p Plan, t Try) (Try, error) {
	r, err := h.Run(ctx, p)
	if err != nil {
		return t, err
	}
	seen := adjustedResult{Result: r, plan: &p}
	t.Result, t.Achieved, t.ErrorShare = r, r.PerSecond(), seen.errorShare()
	t.P50, t.P99 = r.Latency.Quantile(0.5), r.Latency.Quantile(0.99)
	if t.Rate > 0 {
		t.Why, t.Generator = judge(h.Goal, seen)
	}
	t.Held = len(t.Why) == 0
	h.found.Tries = append(h.found.Tries, t)
	if h.Tried != nil {
		h.Tried(t)
	}
	return t, nil
}
