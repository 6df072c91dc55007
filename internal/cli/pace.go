//go:build linux

package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
)

// parsePace parses the steps of a load.Pace, separated by commas. Each step is a rate or a range
// FROM:TO, followed by a slash and its duration.
func parsePace(text string) (all []load.Step, err error) {
	steps := strings.Split(text, ",")
	for i, step := range steps {
		s, err := parseStep(step)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", step, err)
		}
		if s.For == 0 && (i < len(steps)-1 || s.From != s.To) {
			return nil, fmt.Errorf("%q: missing duration: want for example %s/10s", step, step)
		}
		all = append(all, s)
	}
	return all, nil
}

func parseStep(text string) (s load.Step, err error) {
	rates, length, timed := strings.Cut(text, "/")
	if timed {
		if s.For, err = time.ParseDuration(length); err != nil || s.For <= 0 {
			return s, fmt.Errorf("want a duration such as 10s after the slash")
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

// parseRate parses a rate in requests per second; the suffix k multiplies it by 1000.
func parseRate(text string) (float64, error) {
	digits, thousands := strings.CutSuffix(text, "k")
	rate, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(rate >= 0) {
		return 0, fmt.Errorf("want requests per second, such as 1000 or 0:1000/1m")
	}
	if thousands {
		rate *= 1000
	}
	return rate, nil
}
