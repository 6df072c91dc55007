package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Count formats a number with thousands separators: 116,154.
func Count(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// sizeText formats a number of bytes with three significant digits.
func sizeText(n float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for n >= 999.5 && i < len(units)-1 {
		n /= 1000
		i++
	}
	return fmt.Sprintf("%.3g %s", n, units[i])
}

// Duration formats a duration with three significant digits.
func Duration(d time.Duration) string {
	switch {
	case d >= 999500*time.Microsecond:
		return threeDigits(d.Seconds()) + "s"
	case d >= 999500*time.Nanosecond:
		return threeDigits(d.Seconds()*1e3) + "ms"
	}
	return threeDigits(d.Seconds()*1e6) + "µs"
}

// threeDigits formats a number with three significant digits, or as an integer if it has more than
// three.
func threeDigits(v float64) string {
	if v >= 999.5 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// percentOf formats a share such as 0.999 as a percentage with enough digits to distinguish it from
// 100.
func percentOf(q float64) string { return fmt.Sprintf("%.10g%%", 100*q) }

// Sparkline draws values as bars, from 0 to the greatest, in at most width columns. If there are
// more values, each bar is the mean of neighbors.
func Sparkline(values []float64, width int) string {
	values = thin(values, width)
	if len(values) == 0 {
		return ""
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	most := slices.Max(values)
	var s strings.Builder
	for _, v := range values {
		bar := 0
		if most > 0 {
			bar = int(v/most*float64(len(bars)-1) + 0.5)
		}
		s.WriteRune(bars[bar])
	}
	return s.String()
}

// thin returns at most n values, means of neighbors.
func thin(values []float64, n int) []float64 {
	if n < 1 || len(values) <= n {
		return values
	}
	few := make([]float64, n)
	for i := range few {
		from, to := i*len(values)/n, (i+1)*len(values)/n
		for _, v := range values[from:to] {
			few[i] += v / float64(to-from)
		}
	}
	return few
}

// Bar draws a share, 0 to 1, of width columns with a resolution of an eighth of a column.
func Bar(share float64, width int) string {
	eighths := int(share*float64(8*width) + 0.5)
	s := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return s
}
