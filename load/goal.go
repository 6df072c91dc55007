package load

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Goal is a set of bounds. Its text form separates them by commas:
//
//	p99<10ms,errors<0.1%,rps>1000     of one run
//	cpu<+3%,p99<+10%,rps>-5%          of a run, relative to another one
//
// The zero value has no bounds.
type Goal struct{ Bounds []Bound }

// Bound limits one figure, Rate from below and others from above. The sign in its text is that of
// what must hold, or of a violation: p99<=10ms and p99>10ms are one bound.
type Bound struct {
	Figure   Figure
	Quantile float64 // for the Figure Quantile: above 0 and below 1
	// Limit is in nanoseconds for times, in text a duration. It is a share from 0 to 1 for
	// ErrorShare, in text a number or a percentage, and in responses per second for a Rate.
	Limit float64
	// Change means that Limit is the change that is allowed, relative to another run, as a share:
	// in text a signed percentage.
	Change bool
	Equal  bool // the figure may equal the limit
	Fails  bool // the text has the sign of a violation
}

// Figure is the subject of a Bound. Times run from when a request was due, and include requests
// without a response: see Result.Latency.
type Figure uint8

const (
	Quantile   Figure = iota // quantile of the latency: p50, p99.9
	Mean                     // mean latency
	Max                      // maximum latency
	ErrorShare               // share of errors and missing responses among due requests: errors
	Rate                     // responses per second: rps
	CPU                      // CPU time of the server per request, only relative to another run: cpu
)

// figureNames returns the names of figures by number. That of a Quantile has its percentage.
func figureNames() []string {
	return []string{Mean: "mean", Max: "max", ErrorShare: "errors", Rate: "rps", CPU: "cpu"}
}

// ParseGoal parses the text form of a Goal.
func ParseGoal(text string) (g Goal, err error) {
	for part := range strings.SplitSeq(text, ",") {
		b, err := parseBound(strings.TrimSpace(part))
		if err != nil {
			return Goal{}, fmt.Errorf("load: goal %q: %w", part, err)
		}
		g.Bounds = append(g.Bounds, b)
	}
	return g, nil
}

func parseBound(text string) (b Bound, err error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return b, fmt.Errorf("want a figure, < or >, and a limit, as in p99<10ms, errors<0.1%% or cpu>+3%%")
	}
	name := strings.TrimSpace(text[:at])
	if i := slices.Index(figureNames(), name); i > 0 {
		b.Figure = Figure(i)
	} else if b.Quantile, err = parseQuantile(name); err != nil {
		return b, err
	}
	limit, orEqual := strings.CutPrefix(text[at+1:], "=")
	b.Fails = (text[at] == '>') != (b.Figure == Rate)
	b.Equal = orEqual != b.Fails
	return b, b.parseLimit(strings.TrimSpace(limit))
}

func (b *Bound) parseLimit(limit string) error {
	digits, isPercent := strings.CutSuffix(limit, "%")
	isSigned := strings.HasPrefix(limit, "+") || strings.HasPrefix(limit, "-")
	b.Change = isPercent && isSigned && b.Figure != ErrorShare
	n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if isPercent {
		n /= 100
	}
	isNumber := err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
	var want string
	switch {
	case b.Figure == ErrorShare:
		isNumber = isNumber && n >= 0 && n <= 1
		want = "a share such as 0.1% or 0.001"
	case b.Change:
		isNumber = isNumber && n > -1
		want = "a signed change such as +3%, above -100%"
	case b.Figure == CPU:
		isNumber = false
		want = "a signed change such as +3%"
	case b.Figure == Rate:
		isNumber = isNumber && n > 0 && !isPercent
		want = "a number of requests/s, or a signed change such as -5%"
	default:
		d, err := time.ParseDuration(limit)
		n, isNumber = float64(d), err == nil && d > 0
		want = "a duration above 0, such as 500us, 10ms or 1s"
	}
	if !isNumber {
		return fmt.Errorf("limit %q: want %s", limit, want)
	}
	if b.Figure == ErrorShare && n == 0 && !b.Equal {
		return errors.New("a share cannot be below 0: want errors<=0 or errors>0, which allow no error")
	}
	b.Limit = n
	return nil
}

// CheckAbsolute returns an error for a bound that compares two runs.
func (g Goal) CheckAbsolute() error {
	for _, b := range g.Bounds {
		if b.Change {
			return fmt.Errorf("load: %s compares two runs: want a limit without a sign", b)
		}
	}
	return nil
}

// CheckRelative returns an error for a bound that compares no two runs, except of errors.
func (g Goal) CheckRelative() error {
	for _, b := range g.Bounds {
		if !b.Change && b.Figure != ErrorShare {
			return fmt.Errorf("load: %s concerns one run: want a signed change such as +3%%", b)
		}
	}
	return nil
}

// Holds reports whether a value in the unit of the limit, which is nanoseconds for times, is within.
func (b Bound) Holds(value float64) bool {
	limit := b.Limit
	if b.Figure == Rate {
		limit, value = -limit, -value
	}
	return value < limit || b.Equal && value == limit
}

func parseQuantile(name string) (float64, error) {
	if digits, ok := strings.CutPrefix(name, "p"); ok && strings.Trim(digits, "0123456789.") == "" {
		if percent, err := strconv.ParseFloat(digits, 64); err == nil && percent > 0 && percent < 100 {
			return percent / 100, nil
		}
	}
	return 0, fmt.Errorf("figure %q: want mean, max, errors, rps, cpu or a percentile such as p50 or p99.9", name)
}

// String returns the text form that ParseGoal parses.
func (g Goal) String() string {
	var parts []string
	for _, b := range g.Bounds {
		parts = append(parts, b.String())
	}
	return strings.Join(parts, ",")
}

// MarshalText implements encoding.TextMarshaler.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Empty text is the zero Goal.
func (g *Goal) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*g = Goal{}
		return nil
	}
	*g, err = ParseGoal(string(text))
	return err
}

// String returns the bound's text.
func (b Bound) String() string { return b.Name() + b.limit() }

// Name returns the figure's name in text, such as p99.
func (b Bound) Name() string {
	if b.Figure == Quantile {
		return "p" + percent(b.Quantile)
	}
	return figureNames()[b.Figure]
}

// limit returns the bound's text without the name.
func (b Bound) limit() string {
	sign := "<"
	if b.Fails != (b.Figure == Rate) {
		sign = ">"
	}
	if b.Equal != b.Fails {
		sign += "="
	}
	switch {
	case b.Figure == ErrorShare && b.Limit == 0:
		return sign + "0"
	case b.Change && b.Limit >= 0:
		return sign + "+" + percent(b.Limit) + "%"
	case b.Change, b.Figure == ErrorShare:
		return sign + percent(b.Limit) + "%"
	case b.Figure == Rate:
		return sign + strconv.FormatFloat(b.Limit, 'f', -1, 64)
	}
	return sign + time.Duration(b.Limit).String()
}

// wanted returns the limit with the sign of what must hold.
func (b Bound) wanted() string {
	b.Fails = false
	return b.limit()
}

// percent formats a share as a percentage without the rounding errors of binary fractions.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 10, 64) }
