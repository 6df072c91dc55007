package load

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// judge returns why the result of an open loop does not show that the server sustains the rate, or
// nothing if it does. The result generator reports whether the generator is the cause: it was busy,
// or without its lag the goal would be met.
func judge(g Goal, seen adjustedResult) (why []string, generator bool) {
	if own := seen.result.Generator; own.MayLimit() {
		why = append(why, fmt.Sprintf("the generator was busy %.0f%% of the time", 100*own.Busy))
	}
	misses := seen.misses(g)
	generator = len(why) > 0
	if lag := seen.result.Generator.Lag; len(misses) > 0 && lag != nil && lag.Count() > 0 {
		seen.lag = lag
		if len(seen.misses(g)) == 0 {
			generator = true
			why = append(why, fmt.Sprintf("the generator sent 1 %% of requests %v or more late",
				threeDigits(lag.Quantile(0.99))))
		}
	}
	return append(why, misses...), generator
}

// adjustedResult is a Result as it would be if the generator had not been late.
type adjustedResult struct {
	result *Result
	lag    *hist.Histogram // the generator's; nil for the Result as measured
}

func (a adjustedResult) misses(g Goal) (why []string) {
	if a.result.Requests == 0 {
		return []string{"no responses"}
	}
	due := a.result.Due
	if short := due - float64(a.result.Requests); short > (1-minResponseShare)*due+a.result.inFlightAllowance(a.lag) {
		why = append(why, fmt.Sprintf("%.3g%% of due requests had a response, want %.0f%%",
			100*float64(a.result.Requests)/due, 100*minResponseShare))
	}
	return append(why, a.unmet(g)...)
}

// unmet returns the bounds that are not met, with the measured values.
func (a adjustedResult) unmet(g Goal) (why []string) {
	measured := Try{ErrorShare: a.errorShare(), Result: a.result}
	for _, b := range g.Bounds {
		if !a.meets(b) {
			why = append(why, fmt.Sprintf("%s %s, want %s", b.Name(), measured.Figure(b), b.wanted()))
		}
	}
	return why
}

// Unmet returns the bounds that the result does not meet, with the measured values. The bounds must
// not compare two runs.
func (r *Result) Unmet(g Goal) []string { return adjustedResult{result: r}.unmet(g) }

// inFlightAllowance returns how many more requests may be in flight at the end than at the start
// although the server keeps up. The causes are chance, responses that take longer than the warm-up,
// and the generator's lag, which may be nil.
func (r *Result) inFlightAllowance(lag *hist.Histogram) float64 {
	const deviations = 3
	rate := r.Due / max(r.Seconds, 1e-9)
	n := 1 + rate*max(0, r.Latency.Quantile(0.01).Seconds()-r.Warmup)
	if lag != nil {
		n += rate * lag.Quantile(0.99).Seconds()
	}
	return n + deviations*math.Sqrt(rate*r.Latency.Quantile(0.5).Seconds())
}

func (a adjustedResult) meets(b Bound) bool {
	switch b.Figure {
	case ErrorShare:
		return b.Holds(a.errorShare())
	case Rate:
		return b.Holds(a.result.PerSecond())
	}
	elapsed := b.timeIn(a.result.Latency)
	if a.lag != nil {
		elapsed -= b.timeIn(a.lag)
	}
	return b.Holds(float64(elapsed))
}

func (b Bound) timeIn(h *hist.Histogram) time.Duration {
	switch b.Figure {
	case Mean:
		return h.Mean()
	case Max:
		return h.Max()
	}
	return h.Quantile(b.Quantile)
}

// Figure returns the measured value of a bound's figure, with its unit.
func (t *Try) Figure(b Bound) string {
	if b.Figure == ErrorShare {
		return fmt.Sprintf("%.3g%%", 100*t.ErrorShare)
	}
	if b.Figure == Rate {
		return fmt.Sprintf("%.4g", t.Result.PerSecond())
	}
	return threeDigits(b.timeIn(t.Result.Latency)).String()
}

func threeDigits(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// errorShare returns Try.ErrorShare. In a closed loop, all requests that ended count as due.
func (a adjustedResult) errorShare() float64 {
	bad := float64(a.result.Errors.Total()) + a.missingResponses()
	if bad == 0 {
		return 0
	}
	due := cmp.Or(a.result.Due, float64(a.result.Ended()))
	return min(1, bad/max(due, 1))
}

// inFlightShare is the share of the measured time for which a request may be in flight at the end
// without counting as a missing response.
const inFlightShare = 0.01

// missingResponses returns how many requests without a response at the end would have had one, had
// they taken the usual time.
func (a adjustedResult) missingResponses() float64 {
	if a.result.NoResponse == 0 || a.result.Due == 0 {
		return 0
	}
	slow := int64(0)
	for d, n := range a.result.Latency.All() {
		if d.Seconds() > inFlightShare*a.result.Seconds {
			slow += n
		}
	}
	return max(0, min(float64(a.result.NoResponse), float64(slow))-a.result.inFlightAllowance(a.lag))
}
