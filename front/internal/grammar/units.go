package grammar

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxShown is the maximum length of a text in messages.
const maxShown = 60

// Quote quotes a text of a configuration for a message.
func Quote(text string) string {
	if len(text) > maxShown {
		return fmt.Sprintf("%q…", text[:maxShown])
	}
	return strconv.Quote(text)
}

// ParseNumber parses a decimal number without a sign.
func ParseNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] < '0' || text[0] > '9' {
		return 0, fmt.Errorf("invalid number %s", Quote(text))
	}
	return n, nil
}

// ParseFlag parses on or off, in any case.
func ParseFlag(text string) (bool, error) {
	switch {
	case strings.EqualFold(text, "on"):
		return true, nil
	case strings.EqualFold(text, "off"):
		return false, nil
	}
	return false, fmt.Errorf("invalid value %s (must be on or off)", Quote(text))
}

// ParseSize parses a number of bytes, as in most directives: 512, 8k, 1m.
func ParseSize(text string) (int64, error) { return parseSize(text, "km", "512, 8k or 1m") }

// ParseOffset parses a number of bytes where nginx allows g, too: 1g.
func ParseOffset(text string) (int64, error) { return parseSize(text, "kmg", "512, 8k, 1m or 1g") }

func parseSize(text, units, examples string) (int64, error) {
	digits, scale := text, int64(1)
	if text != "" {
		unit := text[len(text)-1]
		if at := strings.IndexByte(units, unit|0x20); at >= 0 {
			digits, scale = text[:len(text)-1], 1<<(10*(at+1))
		}
	}
	n, err := ParseNumber(digits)
	if err != nil || n > math.MaxInt64/scale {
		return 0, fmt.Errorf("invalid size %s (bytes, such as %s)", Quote(text), examples)
	}
	return n * scale, nil
}

// A timeUnit is a unit of time. A month has 30 days, and a year 365.
type timeUnit struct {
	name string
	is   time.Duration
}

// Day is a day of 24 hours.
const Day = 24 * time.Hour

// timeUnits returns the units of time, in the order that a time must have. A number without unit,
// at the end, is in seconds.
func timeUnits() []timeUnit {
	return []timeUnit{
		{"y", 365 * Day}, {"M", 30 * Day}, {"w", 7 * Day}, {"d", Day}, {"h", time.Hour}, {"m", time.Minute},
		{"s", time.Second}, {"ms", time.Millisecond}, {"", time.Second},
	}
}

// ParseTime parses a time, as in most directives: 30, 90s, 500ms, 1h30m, "1d 12h". Neither years
// nor months are allowed.
func ParseTime(text string) (time.Duration, error) {
	t, ok := parseTime(text, false)
	if !ok {
		return 0, fmt.Errorf("invalid time %s (examples: 30s, 500ms, 1h30m; larger units first)", Quote(text))
	}
	return t, nil
}

// ParseSeconds parses a time in seconds: it may have years and months, but no ms.
func ParseSeconds(text string) (time.Duration, error) {
	t, ok := parseTime(text, true)
	if !ok {
		return 0, fmt.Errorf("invalid time %s (examples: 30s, 1h30m, 1d; no ms, larger units first)", Quote(text))
	}
	return t, nil
}

func parseTime(text string, seconds bool) (total time.Duration, ok bool) {
	last, units := -1, timeUnits()
	for rest := text; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, false
		}
		rest = rest[digits:]
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "yMwdhms"))]
		at := slices.IndexFunc(units, func(u timeUnit) bool { return u.name == name })
		if at <= last || last >= 0 && units[last].name == "s" && name == "" {
			return 0, false
		}
		u := units[at]
		large := u.name == "y" || u.name == "M"
		if seconds && u.name == "ms" || !seconds && large || n > int64((math.MaxInt64-total)/u.is) {
			return 0, false
		}
		total += time.Duration(n) * u.is
		if last, rest = at, rest[len(u.name):]; u.name == "" && rest != "" {
			return 0, false
		}
		rest = strings.TrimLeft(rest, " ")
	}
	return total, last >= 0
}

// ParsePercent parses a percentage with up to two decimals, in hundredths.
func ParsePercent(text string) (int, error) {
	digits, ok := strings.CutSuffix(text, "%")
	whole, part, dot := strings.Cut(digits, ".")
	n, err := strconv.ParseUint(whole+(part + "00")[:2], 10, 16)
	if !ok || err != nil || whole == "" || len(part) > 2 || dot && part == "" || n == 0 {
		return 0, fmt.Errorf("invalid percentage %s (examples: 0.5%%, *; at most two decimals)", Quote(text))
	}
	return int(n), nil
}
