package sample

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Target is a limit of a contender's figure, or of its ratio to another contender's figure.
type Target struct {
	Row       string `json:"row" yaml:"-"` // the scenario, or the benchmark
	Contender string `json:"contender" yaml:"contender"`
	Metric    Metric `json:"metric" yaml:"metric"`
	Reference string `json:"reference,omitempty" yaml:"reference"` // "" limits the figure itself

	Require Limit `json:"require,omitzero" yaml:"require"` // has to be met
	Aim     Limit `json:"aim,omitzero" yaml:"aim"`         // is intended; missing it is no fault
}

// Limit is the bound of a figure. The zero value is no bound.
type Limit struct {
	Value float64
	Least bool // the figure has to be at least Value; otherwise at most
}

// ParseLimit parses a limit such as "<= 1.05" or ">= 2".
func ParseLimit(text string) (l Limit, err error) {
	digits, isMost := strings.CutPrefix(text, "<=")
	if !isMost {
		digits, l.Least = strings.CutPrefix(text, ">=")
	}
	l.Value, err = strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !isMost && !l.Least || !(l.Value > 0) || math.IsInf(l.Value, 0) {
		return Limit{}, fmt.Errorf("%q: want <= or >= and a number above 0, such as \"<= 1.05\"", text)
	}
	return l, nil
}

// IsSet reports whether there is a limit.
func (l Limit) IsSet() bool { return l.Value > 0 }

// Admits reports whether a figure is within the limit.
func (l Limit) Admits(v float64) bool { return l.Least && v >= l.Value || !l.Least && v <= l.Value }

// String returns the limit in the form of ParseLimit, or "" without a limit.
func (l Limit) String() string {
	switch {
	case !l.IsSet():
		return ""
	case l.Least:
		return fmt.Sprintf(">= %.4g", l.Value)
	}
	return fmt.Sprintf("<= %.4g", l.Value)
}

// MarshalText implements encoding.TextMarshaler.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (l *Limit) UnmarshalYAML(n ast.Node) error { return yamlfile.Scalar(n, l, ParseLimit) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(text []byte) (err error) {
	*l, err = ParseLimit(string(text))
	return err
}
