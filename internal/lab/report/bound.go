package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
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

// Broken reports whether the whole interval of a change lies beyond the bound. An unknown interval
// does not break it.
func (b Bound) Broken(c analyze.Change) bool {
	if b.Metric == sample.Errors {
		return float64(c.Count) > b.Percent
	}
	return b.beyond(c.Ratio)
}

func (b Bound) beyond(ratio stat.Interval) bool {
	limit := 1 + b.Percent/100
	if !ratio.Known() {
		return false
	}
	return b.Above && ratio.Lo > limit || !b.Above && ratio.Hi < limit
}

// Judgment is the result of a bound under one condition.
type Judgment struct {
	Broken bool
	Text   string // a line for the reader
}

// Judge compares the two builds with each bound under each condition. It returns an error if they
// were not both measured.
func (a *Report) Judge(bounds []Bound) (all []Judgment, err error) {
	for i := range a.Tables {
		t := &a.Tables[i]
		changes := a.Changes(t.Table)
		if changes == nil {
			return nil, fmt.Errorf("with %s at least one of the two builds was not measured", t.Text())
		}
		for _, b := range bounds {
			for _, c := range changes {
				if c.Metric == b.Metric {
					all = append(all, b.judge(c, t))
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the two builds were not measured")
	}
	return all, nil
}

func (b Bound) judge(c analyze.Change, t *Table) Judgment {
	j := Judgment{Broken: b.Broken(c)}
	verdict := "not shown"
	if j.Broken {
		verdict = "FAILED"
	}
	j.Text = fmt.Sprintf("%s: %s: %s: %s, with %s", b, verdict, metricTitle(c.Metric), changeText(&c), t.Text())
	return j
}
