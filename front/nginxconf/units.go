package nginxconf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseSize reads a number of bytes: 512, 8k, 1m; and 1g if giga, as offsets may be.
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
		return 0, fmt.Errorf("%s is no size: want bytes, such as %s", shown(text), units)
	}
	return n * scale, nil
}

// parseNumber reads a decimal number without a sign.
func parseNumber(text string) (int64, error) {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%s is no number", shown(text))
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is no number", shown(text))
	}
	return n, nil
}

// A unit of times. A month has 30 days and a year 365.
type unit struct {
	name string
	is   time.Duration
}

const day = 24 * time.Hour

// units are those of times, in the order in which a time may have them. A number without one, at the end, is seconds.
func units() []unit {
	return []unit{
		{"y", 365 * day}, {"M", 30 * day}, {"w", 7 * day}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second},
		{"ms", time.Millisecond}, {"", time.Second},
	}
}

// parseTime reads a time: 30, 90s, 500ms, 1h30m, "1d 12h". Those that nginx keeps in seconds have no ms, and those that it keeps in
// milliseconds neither years nor months.
func parseTime(text string, seconds bool) (time.Duration, error) {
	bad := fmt.Errorf("%s is no time: want such as 30s, 500ms or 1h30m, from the largest unit to the smallest", shown(text))
	if seconds {
		bad = fmt.Errorf("%s is no time: want such as 30s, 1h30m or 1d, without ms, from the largest unit to the smallest", shown(text))
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

// findUnit finds the unit that a text begins with.
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

// parseFlag reads on or off, in whatever case.
func parseFlag(text string) (bool, error) {
	switch {
	case strings.EqualFold(text, "on"):
		return true, nil
	case strings.EqualFold(text, "off"):
		return false, nil
	}
	return false, fmt.Errorf("%s: want on or off", shown(text))
}
