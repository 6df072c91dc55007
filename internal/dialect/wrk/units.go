package wrk

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// scale is a sequence of units, each a fixed multiple of the one before.
type scale struct {
	times float64
	base  string
	units []string
}

func microsecondUnits() scale { return scale{1000, "us", []string{"ms", "s"}} }
func secondUnits() scale      { return scale{60, "s", []string{"m", "h"}} }
func byteUnits() scale        { return scale{1024, "", []string{"K", "M", "G", "T", "P"}} }
func numberUnits() scale      { return scale{1000, "", []string{"k", "M", "G", "T", "P"}} }

// format formats n in the largest unit in which it is at least 0.85. Like wrk, it never uses the
// last unit.
func (s scale) format(n float64, decimals int) string {
	unit := s.base
	for i := 0; i+1 < len(s.units) && n >= 0.85*s.times; i++ {
		n /= s.times
		unit = s.units[i]
	}
	return strconv.FormatFloat(n, 'f', decimals, 64) + unit
}

// parse parses an integer with an optional unit in any case. Spaces may precede both.
func (s scale) parse(text string) (n uint64, err error) {
	text = strings.TrimLeft(text, " ")
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n, err = strconv.ParseUint(text[:digits], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: want an integer with an optional unit (%s)", text, s.names())
	}
	unit := strings.TrimSpace(text[digits:])
	if unit == "" || strings.EqualFold(unit, s.base) {
		return n, nil
	}
	for _, name := range s.units {
		if n > math.MaxUint64/uint64(s.times) {
			return 0, fmt.Errorf("%q is too large", text)
		}
		n *= uint64(s.times)
		if strings.EqualFold(unit, name) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%q: unknown unit %q: want one of %s, or none", text, unit, s.names())
}

func (s scale) names() string { return strings.TrimSpace(s.base + " " + strings.Join(s.units, " ")) }

func microseconds(n float64) string {
	if n >= 1e6 {
		return secondUnits().format(n/1e6, 2)
	}
	return microsecondUnits().format(n, 2)
}

func seconds(d time.Duration) string { return secondUnits().format(d.Seconds(), 0) }
func binary(n float64) string        { return byteUnits().format(n, 2) }
func metric(n float64) string        { return numberUnits().format(n, 2) }

// percent formats a percentage, and NaN as C does on most machines.
func percent(p float64) string {
	if math.IsNaN(p) {
		return "-nan"
	}
	return strconv.FormatFloat(p, 'f', 2, 64)
}

// column right-aligns text in a column so that numbers align whether their unit has no, one or two
// letters. It truncates text that is too long.
func column(text string, width int) string {
	pad := 2
	for _, c := range []byte(text[len(text)-2:]) {
		if c|0x20 >= 'a' && c|0x20 <= 'z' {
			pad--
		}
	}
	width -= pad
	return fmt.Sprintf("%*.*s%*s", width, width, text, pad, "")
}
