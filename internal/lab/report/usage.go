package report

import (
	"fmt"

	"github.com/tarehq/tare/internal/lab/analyze"
)

// perCall formats a count for a table. Negligible counts are "".
func perCall(n float64) string {
	if n < 0.005 {
		return ""
	}
	return fmt.Sprintf("%.2f", n)
}

// heat returns the CSS class of a cell: the higher the count, the darker.
func heat(n float64) string {
	level := 0
	for _, from := range []float64{analyze.LeastCalls, 0.5, 1.5, 3, 6} {
		if n >= from {
			level++
		}
	}
	return fmt.Sprintf("heat-%d", level)
}
