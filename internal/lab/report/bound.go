package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// Bound is the largest acceptable change of a measure. A larger change fails the run.
type Bound struct {
	Metric  sample.Metric
	Above   bool    // larger changes fail; otherwise smaller ones
	Percent float64 // relative to the first build; for Errors, their number
}

// ParseBounds parses bounds separated by commas. Each is a measure, > or <, and a signed change in
// percent, as in "cpu>+3%,rps<-5%". For errors it is a number: "errors>0".
func ParseBounds(text string) (bounds []Bound, err error) {
	for part := range strings.SplitSeq(text, ",") {
		b, err := parseBound(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		bounds = append(bounds, b)
	}
	return bounds, nil
}

func parseBound(text string) (b Bound, err error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return b, fmt.Errorf("%q: want a measure, > or <, and a change, such as cpu>+3%%", text)
	}
	b.Metric, b.Above = sample.Metric(strings.TrimSpace(text[:at])), text[at] == '>'
	value := strings.TrimSpace(text[at+1:])
	switch b.Metric {
	case sample.CPU, sample.Rate, sample.P50, sample.P99:
	case sample.Errors:
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || !b.Above {
			return b, fmt.Errorf("%q: want > and a number, such as errors>0", text)
		}
		b.Percent = float64(n)
		return b, nil
	default:
		return b, fmt.Errorf("%q: unknown measure %q: want %s, %s, %s, %s or %s", text, b.Metric, sample.CPU,
			sample.Rate, sample.P50, sample.P99, sample.Errors)
	}
	digits, percent := strings.CutSuffix(value, "%")
	signed := strings.HasPrefix(value, "+") || strings.HasPrefix(value, "-")
	b.Percent, err = strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !percent || !signed || math.IsNaN(b.Percent) || math.IsInf(b.Percent, 0) || b.Percent <= -100 {
		return b, fmt.Errorf("%q: want a signed change in percent, such as %s>+3%% or %s<-3%%", text, b.Metric,
			b.Metric)
	}
	return b, nil
}

// String returns the bound in the syntax of ParseBounds.
func (b Bound) String() string {
	sign := "<"
	if b.Above {
		sign = ">"
	}
	if b.Metric == sample.Errors {
		return fmt.Sprintf("%s%s%g", b.Metric, sign, b.Percent)
	}
	return fmt.Sprintf("%s%s%+g%%", b.Metric, sign, b.Percent)
}

// CheckBounds returns an error if trials of so many blocks cannot decide a bound. Latencies are
// compared at a fixed rate only: at saturation they are the length of the queue.
func CheckBounds(bounds []Bound, blocks int, atRate bool) error {
	for _, b := range bounds {
		switch {
		case b.Metric.Latency() && !atRate:
			return fmt.Errorf("%s: latencies are compared at a fixed rate, which is not set", b)
		case b.Metric != sample.Errors && blocks < stat.FewestStarts:
			return fmt.Errorf("%s: %s have no interval: want %d or more", b, sample.BlocksText(blocks),
				stat.FewestStarts)
		}
	}
	return nil
}

// Outcome is what an interval shows about a bound.
type Outcome uint8

const (
	Undecided Outcome = iota // the interval reaches over the bound, or has no bounds
	Holds                    // the whole interval is within the bound
	Violated                 // the whole interval is beyond the bound
)

func (o Outcome) String() string { return [...]string{"undecided", "holds", "FAILED"}[o] }

// Outcome compares a change with the bound.
func (b Bound) Outcome(c analyze.Change) Outcome {
	limit, lo, hi := 1+b.Percent/100, c.Ratio.Lo, c.Ratio.Hi
	switch {
	case b.Metric == sample.Errors && float64(c.Count) > b.Percent:
		return Violated
	case b.Metric == sample.Errors:
		return Holds
	case !c.Ratio.Known():
		return Undecided
	case b.Above && lo > limit || !b.Above && hi < limit:
		return Violated
	case b.Above && hi <= limit || !b.Above && lo >= limit:
		return Holds
	}
	return Undecided
}

// Judgment is the result of a bound under one condition.
type Judgment struct {
	Outcome Outcome
	Text    string // a line for the reader
}

// Judge compares the two builds with each bound under each condition, and latencies at fixed rates
// only. A bound without a comparison is undecided.
func (a *Report) Judge(bounds []Bound) (all []Judgment) {
	for _, b := range bounds {
		before := len(all)
		for i := range a.Tables {
			t := &a.Tables[i]
			for _, c := range a.Changes(t.Table) {
				if c.Metric == b.Metric && (!t.Saturated() || !b.Metric.Latency()) {
					o := b.Outcome(c)
					all = append(all, Judgment{o, fmt.Sprintf("%s: %s: %s: %s, with %s", b, o,
						metricTitle(c.Metric), changeText(&c), t.Text())})
				}
			}
		}
		if len(all) == before {
			all = append(all, Judgment{Undecided, fmt.Sprintf("%s: %s: %s: the two builds were not both measured", b,
				Undecided, metricTitle(b.Metric))})
		}
	}
	return all
}
