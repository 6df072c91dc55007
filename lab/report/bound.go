package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tarehq/tare/lab/stat"
)

// Bound is how much worse a build may be: beyond it, it fails.
type Bound struct {
	Measure Measure
	Above   bool    // a change that is larger fails, not one that is smaller
	Percent float64 // of the first build's value; of Errors, their number
}

// ParseBounds reads bounds with commas between them: a measure, > or <, and by how much it
// may change, with its sign, in percent: "cpu>+3%,rps<-5%". Of errors it is a number:
// "errors>0".
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
	b.Measure, b.Above = Measure(strings.TrimSpace(text[:at])), text[at] == '>'
	value := strings.TrimSpace(text[at+1:])
	switch b.Measure {
	case CPU, Rate, P50, P99:
	case Errors:
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || !b.Above {
			return b, fmt.Errorf("%q: want > and a number, such as errors>0", text)
		}
		b.Percent = float64(n)
		return b, nil
	default:
		return b, fmt.Errorf("%q: there is no measure %q; want %s, %s, %s, %s or %s", text, b.Measure, CPU, Rate, P50, P99, Errors)
	}
	digits, percent := strings.CutSuffix(value, "%")
	signed := strings.HasPrefix(value, "+") || strings.HasPrefix(value, "-")
	b.Percent, err = strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !percent || !signed || math.IsNaN(b.Percent) || math.IsInf(b.Percent, 0) || b.Percent <= -100 {
		return b, fmt.Errorf("%q: want a change with its sign, in percent, such as %s>+3%% or %s<-3%%", text, b.Measure, b.Measure)
	}
	return b, nil
}

// String writes the bound as ParseBounds reads it.
func (b Bound) String() string {
	sign := "<"
	if b.Above {
		sign = ">"
	}
	if b.Measure == Errors {
		return fmt.Sprintf("%s%s%g", b.Measure, sign, b.Percent)
	}
	return fmt.Sprintf("%s%s%+g%%", b.Measure, sign, b.Percent)
}

// Broken reports whether a change is shown to be beyond the bound: its whole interval is.
// One that reaches to the bound, or whose interval is not known, is not.
func (b Bound) Broken(c Change) bool {
	if b.Measure == Errors {
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

// Judgment is what became of a bound under one condition.
type Judgment struct {
	Bound  Bound
	Broken bool
	Text   string // a line for the reader
}

// Judge compares the second build with the first by each bound, under each condition that
// was measured. The error says why that cannot be.
func (a *Analysis) Judge(bounds []Bound) (all []Judgment, err error) {
	for i := range a.Tables {
		t := &a.Tables[i]
		changes := a.Changes(t)
		if changes == nil {
			return nil, fmt.Errorf("with %s the two builds were not both measured", conditionText(t))
		}
		for _, b := range bounds {
			for _, c := range changes {
				if c.Measure == b.Measure {
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

func (b Bound) judge(c Change, t *Table) Judgment {
	j := Judgment{Bound: b, Broken: b.Broken(c)}
	verdict := "not shown"
	if j.Broken {
		verdict = "FAILED"
	}
	j.Text = fmt.Sprintf("%s: %s: %s: %s, with %s", b, verdict, c.Measure.title(), &c, conditionText(t))
	return j
}
