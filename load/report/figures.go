package report

import (
	"fmt"
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
