package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
)

// paceFlag is a load.Pace on the command line: steps with commas between them, each a rate or
// two with a colon between, and after a slash how long that takes.
type paceFlag struct{ *load.Pace }

// Type implements pflag.Value.
func (paceFlag) Type() string { return "rate" }

// String implements pflag.Value.
func (p paceFlag) String() string { return "" }

// Set implements pflag.Value.
func (p paceFlag) Set(text string) error {
	p.Steps = nil
	steps := strings.Split(text, ",")
	for i, step := range steps {
		s, err := parseStep(step)
		if err != nil {
			return fmt.Errorf("%q: %w", step, err)
		}
		if s.For == 0 && (i < len(steps)-1 || s.From != s.To) {
			return fmt.Errorf("%q: say how long that takes, as in %s/10s", step, step)
		}
		p.Steps = append(p.Steps, s)
	}
	return nil
}

func parseStep(text string) (s load.Step, err error) {
	rates, length, timed := strings.Cut(text, "/")
	if timed {
		if s.For, err = time.ParseDuration(length); err != nil || s.For <= 0 {
			return s, fmt.Errorf("want a time such as 10s after the slash")
		}
	}
	from, to, ramp := strings.Cut(rates, ":")
	if s.From, err = parseRate(from); err != nil {
		return s, err
	}
	if s.To = s.From; ramp {
		s.To, err = parseRate(to)
	}
	return s, err
}

// parseRate reads a number of requests each second; k stands for a thousand.
func parseRate(text string) (float64, error) {
	digits, thousands := strings.CutSuffix(text, "k")
	rate, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(rate >= 0) {
		return 0, fmt.Errorf("want requests each second, such as 1000 or 0:1000/1m")
	}
	if thousands {
		rate *= 1000
	}
	return rate, nil
}
