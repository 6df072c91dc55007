package cache

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// directives are those of Cache-Control for a shared cache: RFC 9111, 5.2.2, and RFC 5861.
type directives struct {
	noStore, noCache, private, public bool
	mustRevalidate, proxyRevalidate   bool

	maxAge, sharedMaxAge               span
	staleWhileRevalidate, staleIfError span
}

// span is the number of seconds of a directive.
type span struct {
	isSet   bool
	seconds int64
}

func (s span) duration() time.Duration { return time.Duration(s.seconds) * time.Second }

// maxSeconds replaces longer times: RFC 9111, 1.2.2.
const maxSeconds = math.MaxInt32

// parseControl reads the lines of Cache-Control. Malformed input gets the strictest meaning: an
// invalid number is 0, and an unterminated quoted string means no-store. Of contradicting values
// the smallest counts.
func parseControl(lines []string) (d directives) {
	for _, line := range lines {
		for line != "" {
			var name, value string
			var ok bool
			if name, value, line, ok = scanDirective(line); !ok {
				d.noStore = true
			}
			d.add(name, value)
		}
	}
	return d
}

// parseTargeted reads the lines of CDN-Cache-Control, which are a dictionary of structured fields.
// ok is false if it is empty or malformed: it then has no effect (RFC 9213, 2.1). A time of another
// type than Integer is 0.
func parseTargeted(lines []string) (d directives, ok bool) {
	fields, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return d, false
	}
	for _, name := range fields.Names() {
		member, _ := fields.Get(name)
		item, _ := member.(httpsfv.Item)
		switch value := item.Value.(type) {
		case int64:
			d.add(name, strconv.FormatInt(value, 10))
		case bool:
			if value {
				d.add(name, "")
			}
		default:
			d.add(name, "")
		}
	}
	return d, len(fields.Names()) > 0
}

// scanDirective cuts "name", "name=token" or `name="quoted"` off the beginning of a list.
func scanDirective(s string) (name, value, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t,")
	end := strings.IndexAny(s, ",=")
	if end < 0 {
		return trim(s), "", "", true
	}
	name, rest = trim(s[:end]), s[end+1:]
	if s[end] == ',' {
		return name, "", rest, true
	}
	if rest = strings.TrimLeft(rest, " \t"); !strings.HasPrefix(rest, `"`) {
		value, rest, _ = strings.Cut(rest, ",")
		return name, trim(value), rest, true
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			_, after, _ := strings.Cut(rest[i+1:], ",")
			return name, rest[1:i], after, true
		}
	}
	return name, "", "", false
}

func trim(s string) string { return strings.Trim(s, " \t") }

func (d *directives) add(name, value string) {
	switch {
	case strings.EqualFold(name, "public"):
		d.public = true
	case strings.EqualFold(name, "must-revalidate"):
		d.mustRevalidate = true
	case strings.EqualFold(name, "proxy-revalidate"):
		d.proxyRevalidate = true
	case strings.EqualFold(name, "no-store"):
		d.noStore = true
	case strings.EqualFold(name, "no-cache"):
		// even one with field names: the whole response is not stored
		d.noCache = true
	case strings.EqualFold(name, "private"):
		d.private = true
	case strings.EqualFold(name, "max-age"):
		d.maxAge.add(value)
	case strings.EqualFold(name, "s-maxage"):
		d.sharedMaxAge.add(value)
	case strings.EqualFold(name, "stale-while-revalidate"):
		d.staleWhileRevalidate.add(value)
	case strings.EqualFold(name, "stale-if-error"):
		d.staleIfError.add(value)
	}
}

func (s *span) add(value string) {
	n, ok := parseSeconds(value)
	if !ok {
		n = 0
	}
	if !s.isSet || n < s.seconds {
		s.isSet, s.seconds = true, n
	}
}

// parseSeconds parses digits, and limits the result to maxSeconds.
func parseSeconds(s string) (n int64, ok bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, _ = strconv.ParseInt(s, 10, 64) // the largest number if it is larger
	return min(n, maxSeconds), true
}
