package load

import (
	"cmp"
	"context"
	"math"
	"time"
)

// searchState is the state of a Search in progress. It passes through these steps:
//
//	start     a short closed loop finds the first rate, unless Search.From sets it
//	bracket   doubles or quarters the rate until one rate was sustained and one was not
//	bisect    halves the bracket until it is narrow
//	confirm   repeats the sustained rate; if most runs fail, lowers it and repeats
//
// low is the highest rate sustained and high the lowest rate not sustained; each is 0 if there is
// none.
type searchState struct {
	settings       Search
	plan           Plan
	found          *SearchResult
	low, high      float64
	generatorBound bool // the generator caused the failure at high
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

func (h *searchState) lowest() float64 { return min(minRequests/h.settings.Step.Seconds(), h.top()) }

func (h *searchState) top() float64 { return cmp.Or(h.settings.To, maxRate) }

// isExhausted reports whether only the confirming runs are left.
func (h *searchState) isExhausted() bool {
	return len(h.found.Tries)+h.settings.Confirmations >= h.settings.Runs
}

func (h *searchState) start(ctx context.Context) (float64, error) {
	rate := h.settings.From
	if rate == 0 {
		p := h.plan
		p.Duration = time.Duration(closedLoopShare * float64(h.settings.Step))
		t, err := h.runPlan(ctx, p, Try{Purpose: ToStart})
		if err != nil {
			return 0, err
		}
		rate = t.Achieved / 2
	}
	return min(max(rate, h.lowest()), h.top()), nil
}

func (h *searchState) bracket(ctx context.Context, rate float64) error {
	const up, down = 2, 4
	for !h.isExhausted() {
		sustained, err := h.tryTwice(ctx, rate, ToBracket)
		switch {
		case err != nil:
			return err
		case sustained && (h.high > 0 || rate == h.top()), !sustained && (h.low > 0 || rate <= h.lowest()):
			return nil
		case sustained:
			rate = min(rate*up, h.top())
		default:
			rate = max(rate/down, h.lowest())
		}
	}
	return nil
}

func (h *searchState) isNarrow() bool {
	precision := h.settings.Precision
	if h.generatorBound {
		precision = max(precision, boundPrecision)
	}
	return h.high <= h.low*(1+precision)
}

func (h *searchState) bisect(ctx context.Context) error {
	for h.low > 0 && h.high > 0 && !h.isNarrow() && !h.isExhausted() {
		if _, err := h.tryTwice(ctx, math.Sqrt(h.low*h.high), ToBisect); err != nil {
			return err
		}
	}
	return nil
}

// tryTwice tries a rate, again if it fails, and narrows the bracket. The generator counts as the
// cause only if it was both times.
func (h *searchState) tryTwice(ctx context.Context, rate float64, purpose Purpose) (bool, error) {
	t, err := h.try(ctx, rate, purpose)
	if err == nil && !t.Sustained {
		first := t.Generator
		t, err = h.try(ctx, rate, purpose)
		t.Generator = t.Generator && first
	}
	switch {
	case err != nil:
		return false, err
	case t.Sustained:
		h.low = rate
	default:
		h.high, h.generatorBound = rate, t.Generator
	}
	return t.Sustained, nil
}

// confirm repeats the rate found, until most of the confirmations agree or no runs are left. While
// most fail, it lowers the rate. Each step lowers it twice as much as the one before, beginning with
// the precision, so that a lucky rate does not take many runs.
func (h *searchState) confirm(ctx context.Context) error {
	verdict, needed := h.verdict(), h.settings.Confirmations
	for less := h.settings.Precision; h.low > 0; less *= 2 {
		good, bad, byGenerator := 0, 0, 0
		for 2*good <= needed && 2*bad < needed {
			if len(h.found.Tries) >= h.settings.Runs {
				return nil
			}
			t, err := h.try(ctx, h.low, ToConfirm)
			switch {
			case err != nil:
				return err
			case t.Sustained:
				good++
			case t.Generator:
				byGenerator++
				bad++
			default:
				bad++
			}
		}
		if 2*good > needed {
			h.found.Sustained, h.found.Verdict = h.low, verdict
			return nil
		}
		h.high, h.generatorBound, h.low = h.low, byGenerator == bad, h.below(h.low, less)
		if verdict = Settled; h.generatorBound {
			verdict = GeneratorBound
		}
	}
	h.found.Verdict = h.verdict()
	return nil
}

// below returns a rate lower by a share, or 0 if there is none.
func (h *searchState) below(rate, less float64) float64 {
	if rate <= h.lowest() {
		return 0
	}
	return max(rate*(1-less), h.lowest())
}

// verdict returns the verdict on the bracket once its lower end is confirmed or missing.
func (h *searchState) verdict() Verdict {
	switch {
	case h.generatorBound:
		return GeneratorBound
	case h.low == 0 && h.high > 0 && h.high <= h.lowest():
		return NoneSustained
	case h.low > 0 && h.high == 0 && h.low == h.top():
		return AllSustained
	case h.low > 0 && h.high > 0 && h.isNarrow():
		return Settled
	}
	return Unsettled
}

func (h *searchState) try(ctx context.Context, rate float64, purpose Purpose) (Try, error) {
	p := h.plan
	p.Pace.Steps = Constant(rate).Steps
	p.Duration = h.settings.Step
	return h.runPlan(ctx, p, Try{Rate: rate, Purpose: purpose})
}

func (h *searchState) runPlan(ctx context.Context, p Plan, t Try) (Try, error) {
	r, err := h.settings.Run(ctx, p)
	if err != nil {
		return t, err
	}
	seen := adjustedResult{result: r}
	t.Result, t.Achieved, t.ErrorShare = r, r.PerSecond(), seen.errorShare()
	t.P50, t.P99 = r.Latency.Quantile(0.5), r.Latency.Quantile(0.99)
	if t.Rate > 0 {
		t.Why, t.Generator = judge(h.settings.Goal, seen)
	}
	t.Sustained = len(t.Why) == 0
	h.found.Tries = append(h.found.Tries, t)
	if h.settings.Tried != nil {
		h.settings.Tried(t)
	}
	return t, nil
}
