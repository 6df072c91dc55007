//go:build linux

package cli

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/report"
)

// Size of a curve in characters, without its labels.
const (
	curveWidth  = 60
	curveHeight = 12
)

// Marks of a curve.
const (
	sustainedMark = '●'
	failedMark    = '×'
	limitMark     = '┄'
)

// rateCurve draws the 99th percentile over the rate as text. The rate axis is linear from 0, the
// time axis logarithmic.
type rateCurve struct {
	cells    [curveHeight][curveWidth]rune // the first row is at the top
	low, up  float64                       // range of times in nanoseconds
	maxRate  float64                       // highest rate
	hasLimit bool                          // the goal limits the 99th percentile
}

func newRateCurve(tries []load.Try, goal load.Goal) *rateCurve {
	c := &rateCurve{low: math.Inf(1)}
	for _, t := range tries {
		if t.P99 > 0 {
			c.low, c.up, c.maxRate = min(c.low, float64(t.P99)), max(c.up, float64(t.P99)), max(c.maxRate, t.Rate)
		}
	}
	if c.maxRate == 0 {
		return c
	}
	const apart = 2 // least ratio of the ends of the time axis
	c.up = max(c.up, apart*c.low)
	for _, b := range goal.Bounds {
		if b.Figure == load.Quantile && b.Name() == "p99" && float64(b.Most) >= c.low && float64(b.Most) <= c.up {
			c.hasLimit = true
			for x := range curveWidth {
				c.cells[c.rowOf(b.Most)][x] = limitMark
			}
		}
	}
	for _, sustained := range []bool{false, true} {
		mark := failedMark
		if sustained {
			mark = sustainedMark
		}
		for _, t := range tries {
			if t.P99 > 0 && t.Sustained == sustained {
				c.cells[c.rowOf(t.P99)][int(t.Rate/c.maxRate*(curveWidth-1)+0.5)] = mark
			}
		}
	}
	return c
}

func (c *rateCurve) rowOf(d time.Duration) int {
	share := math.Log(float64(d)/c.low) / math.Log(c.up/c.low)
	return curveHeight - 1 - int(min(max(share, 0), 1)*(curveHeight-1)+0.5)
}

func (c *rateCurve) timeAt(row int) time.Duration {
	share := float64(curveHeight-1-row) / (curveHeight - 1)
	return time.Duration(c.low * math.Pow(c.up/c.low, share))
}

// String returns the drawn curve; empty without data.
func (c *rateCurve) String() string {
	if c.maxRate == 0 {
		return ""
	}
	const every = 4 // rows per label
	var s strings.Builder
	fmt.Fprintf(&s, "\n%8s\n", "p99")
	for i := range c.cells {
		label, axis := "", "│"
		if i%every == 0 || i == curveHeight-1 {
			label, axis = report.Duration(c.timeAt(i)), "┤"
		}
		line := strings.Map(func(r rune) rune {
			if r == 0 {
				return ' '
			}
			return r
		}, string(c.cells[i][:]))
		fmt.Fprintf(&s, "%8s %s%s\n", label, axis, strings.TrimRight(line, " "))
	}
	fmt.Fprintf(&s, "%8s └%s\n", "", strings.Repeat("─", curveWidth))
	half, most := report.Count(c.maxRate/2), report.Count(c.maxRate)
	middle := curveWidth/2 + len(half)/2
	fmt.Fprintf(&s, "%8s  0%*s%*s requests/s\n", "", middle-1, half, curveWidth-middle, most)
	fmt.Fprintf(&s, "\n%c sustained  %c failed", sustainedMark, failedMark)
	if c.hasLimit {
		fmt.Fprintf(&s, "  %c goal", limitMark)
	}
	return s.String() + "\n"
}
