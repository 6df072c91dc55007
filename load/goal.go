package load

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Goal says what the requests of an open loop are to come to, for a rate to be one that the
// server holds: every bound of it. In text they have commas between them:
//
//	p99<10ms,errors<0.1%
//
// The zero value bounds nothing.
type Goal struct{ Bounds []Bound }

// Bound is one figure with what it may be.
type Bound struct {
	Figure   Figure
	Quantile float64 // of the Figure Quantile: a share from 0 to 1, both excluded
	// Most is what a time may be, in text a duration; Share is what a share may be, 0 to 1,
	// in text a number or a percentage.
	Most  time.Duration
	Share float64
	Equal bool // the figure may be as much as that: <= in text; < if false
}

// Figure is what a Bound is about. Times are those from when a request was due, and hold what
// was not answered: Result.Latency.
type Figure uint8

const (
	Quantile   Figure = iota // the time that a share of the requests did not exceed: p50, p99.9
	Mean                     // the mean time
	Max                      // the longest time
	ErrorShare               // errors, and what was not answered, of what was asked: errors
)

// ParseGoal reads the text of a Goal.
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
	name, limit, ok := strings.Cut(text, "<")
	if !ok {
		return b, fmt.Errorf("want a figure, < or <=, and a limit, as in p99<10ms or errors<0.1%%")
	}
	limit, b.Equal = strings.CutPrefix(limit, "=")
	name, limit = strings.TrimSpace(name), strings.TrimSpace(limit)
	switch name {
	case "mean":
		b.Figure = Mean
	case "max":
		b.Figure = Max
	case "errors":
		b.Figure = ErrorShare
		b.Share, err = parseShare(limit)
		if err == nil && b.Share == 0 && !b.Equal {
			err = fmt.Errorf("no share is below 0: want errors<=0, which allows none")
		}
		return b, err
	default:
		if b.Quantile, err = parseQuantile(name); err != nil {
			return b, err
		}
	}
	if b.Most, err = time.ParseDuration(limit); err != nil || b.Most <= 0 {
		return b, fmt.Errorf("the limit is %q: want a time above 0 with its unit, such as 500us, 10ms or 1s", limit)
	}
	return b, nil
}

func parseQuantile(name string) (float64, error) {
	if digits, ok := strings.CutPrefix(name, "p"); ok && strings.Trim(digits, "0123456789.") == "" {
		if percent, err := strconv.ParseFloat(digits, 64); err == nil && percent > 0 && percent < 100 {
			return percent / 100, nil
		}
	}
	return 0, fmt.Errorf("the figure is %q: want p50, p99.9 and the like, mean, max or errors", name)
}

func parseShare(limit string) (float64, error) {
	digits, percent := strings.CutSuffix(limit, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("the limit is %q: want a share such as 0.1%% or 0.001", limit)
	}
	return share, nil
}

// String returns the text that ParseGoal reads.
func (g Goal) String() string {
	var parts []string
	for _, b := range g.Bounds {
		parts = append(parts, b.Name()+b.limit())
	}
	return strings.Join(parts, ",")
}

// Set reads the text of a Goal, for packages of flags.
func (g *Goal) Set(text string) (err error) {
	*g, err = ParseGoal(text)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Of no text it makes the zero value.
func (g *Goal) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*g = Goal{}
		return nil
	}
	return g.Set(string(text))
}

// Name returns what the bound's figure is called in text, such as p99.
func (b Bound) Name() string {
	switch b.Figure {
	case Mean:
		return "mean"
	case Max:
		return "max"
	case ErrorShare:
		return "errors"
	}
	return "p" + percent(b.Quantile)
}

// limit returns the bound without the name.
func (b Bound) limit() string {
	sign := "<"
	if b.Equal {
		sign = "<="
	}
	if b.Figure == ErrorShare {
		return sign + percent(b.Share) + "%"
	}
	return sign + b.Most.String()
}

// percent writes a share as a percentage, without what binary fractions add to it.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 10, 64) }
