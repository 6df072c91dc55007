package load

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Goal is the set of bounds that an open loop must meet for the server to sustain its rate. Its
// text form separates bounds by commas:
//
//	p99<10ms,errors<0.1%
//
// The zero value has no bounds.
type Goal struct{ Bounds []Bound }

// Bound limits one figure.
type Bound struct {
	Figure   Figure
	Quantile float64 // for the Figure Quantile: above 0 and below 1
	// Most is the limit of a time, in text a duration. Share is the limit of a share, from 0 to 1,
	// in text a number or a percentage.
	Most  time.Duration
	Share float64
	Equal bool // the figure may equal the limit: <= in text; otherwise <
}

// Figure is the subject of a Bound. Times run from when a request was due, and include requests
// without a response: see Result.Latency.
type Figure uint8

const (
	Quantile   Figure = iota // quantile of the latency: p50, p99.9
	Mean                     // mean latency
	Max                      // maximum latency
	ErrorShare               // share of errors and missing responses among due requests: errors
)

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
			err = fmt.Errorf("a share cannot be below 0: want errors<=0, which allows no error")
		}
		return b, err
	default:
		if b.Quantile, err = parseQuantile(name); err != nil {
			return b, err
		}
	}
	if b.Most, err = time.ParseDuration(limit); err != nil || b.Most <= 0 {
		return b, fmt.Errorf("limit %q: want a duration above 0, such as 500us, 10ms or 1s", limit)
	}
	return b, nil
}

func parseQuantile(name string) (float64, error) {
	if digits, ok := strings.CutPrefix(name, "p"); ok && strings.Trim(digits, "0123456789.") == "" {
		if percent, err := strconv.ParseFloat(digits, 64); err == nil && percent > 0 && percent < 100 {
			return percent / 100, nil
		}
	}
	return 0, fmt.Errorf("figure %q: want mean, max, errors or a percentile such as p50 or p99.9", name)
}

func parseShare(limit string) (float64, error) {
	digits, percent := strings.CutSuffix(limit, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("limit %q: want a share such as 0.1%% or 0.001", limit)
	}
	return share, nil
}

// String returns the text form that ParseGoal parses.
func (g Goal) String() string {
	var parts []string
	for _, b := range g.Bounds {
		parts = append(parts, b.Name()+b.limit())
	}
	return strings.Join(parts, ",")
}

// Set parses the text form of a Goal. It implements the Set method of flag values.
func (g *Goal) Set(text string) (err error) {
	*g, err = ParseGoal(text)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Empty text is the zero Goal.
func (g *Goal) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*g = Goal{}
		return nil
	}
	return g.Set(string(text))
}

// Name returns the figure's name in text, such as p99.
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

// limit returns the bound's text without the name.
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

// percent formats a share as a percentage without the rounding errors of binary fractions.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 10, 64) }
