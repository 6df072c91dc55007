package nginxconf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseSize parses a number of bytes: 512, 8k, 1m; with giga also 1g, as in offsets.
func parseSize(text string, giga bool) (int64, error) {
	digits, scale := text, int64(1)
	if text != "" {
		switch text[len(text)-1] {
		case 'k', 'K':
			scale = 1 << 10
		case 'm', 'M':
			scale = 1 << 20
		case 'g', 'G':
			if giga {
				scale = 1 << 30
			}
		}
	}
	if scale > 1 {
		digits = text[:len(text)-1]
	}
	n, err := parseNumber(digits)
	if err != nil || n > math.MaxInt64/scale {
		units := "512, 8k or 1m"
		if giga {
			units = "512, 8k, 1m or 1g"
		}
		return 0, fmt.Errorf("invalid size %s (bytes, such as %s)", shown(text), units)
	}
	return n * scale, nil
}

// parseNumber parses a decimal number without a sign.
func parseNumber(text string) (int64, error) {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("invalid number %s", shown(text))
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("invalid number %s", shown(text))
	}
	return n, nil
}

// A unit of time. A month has 30 days, and a year 365.
type unit struct {
	name string
	is   time.Duration
}

const day = 24 * time.Hour

// units returns the units of time, in the order that a time must have. A number without unit, at
// the end, is in seconds.
func units() []unit {
	return []unit{
		{"y", 365 * day}, {"M", 30 * day}, {"w", 7 * day}, {"d", day}, {"h", time.Hour}, {"m", time.Minute},
		{"s", time.Second},
		{"ms", time.Millisecond}, {"", time.Second},
	}
}

// parseTime parses a time: 30, 90s, 500ms, 1h30m, "1d 12h". As in nginx, times in seconds allow no
// ms, and times in milliseconds neither years nor months.
func parseTime(text string, seconds bool) (time.Duration, error) {
	bad := fmt.Errorf("invalid time %s (examples: 30s, 500ms, 1h30m; larger units first)", shown(text))
	if seconds {
		bad = fmt.Errorf("invalid time %s (examples: 30s, 1h30m, 1d; no ms, larger units first)", shown(text))
	}
	total, last, rest := time.Duration(0), -1, text
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, bad
		}
		rest = rest[digits:]
		at, u := findUnit(rest)
		if at <= last || last >= 0 && units()[last].name == "s" && u.name == "" {
			return 0, bad
		}
		large := u.name == "y" || u.name == "M"
		if seconds && u.name == "ms" || !seconds && large || n > int64((math.MaxInt64-total)/u.is) {
			return 0, bad
		}
		total += time.Duration(n) * u.is
		if last, rest = at, rest[len(u.name):]; u.name == "" && rest != "" {
			return 0, bad
		}
		rest = strings.TrimLeft(rest, " ")
	}
	if last < 0 {
		return 0, bad
	}
	return total, nil
}

// findUnit returns the unit that a text begins with.
func findUnit(text string) (at int, u unit) {
	all := units()
	if strings.HasPrefix(text, "ms") {
		return 7, all[7]
	}
	for i, u := range all {
		if u.name != "ms" && strings.HasPrefix(text, u.name) {
			return i, u
		}
	}
	return len(all) - 1, all[len(all)-1]
}

// parseFlag parses on or off, in any case.
func parseFlag(text string) (bool, error) {
	switch {
	case strings.EqualFold(text, "on"):
		return true, nil
	case strings.EqualFold(text, "off"):
		return false, nil
	}
	return false, fmt.Errorf("invalid value %s (must be on or off)", shown(text))
}
