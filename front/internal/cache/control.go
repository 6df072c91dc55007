package cache

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// directives are those of Cache-Control for a shared cache (RFC 9111, 5.2.2, and RFC 5861), by
// their names in lower case, with the seconds of those that have them.
type directives map[string]int64

func (d directives) has(name string) bool {
	_, has := d[name]
	return has
}

func (d directives) duration(name string) time.Duration { return time.Duration(d[name]) * time.Second }

// maxSeconds replaces longer times: RFC 9111, 1.2.2.
const maxSeconds = math.MaxInt32

// add adds a directive, also no-cache and private with field names: the whole response is not
// stored. An invalid number is 0.
func (d directives) add(name, value string) {
	name = strings.ToLower(name)
	n, _ := parseSeconds(value)
	if before, has := d[name]; !has || n < before {
		d[name] = n
	}
}

// parseControl reads the lines of Cache-Control. Malformed input gets the strictest meaning: an
// invalid number is 0, and an unterminated quoted string means no-store. Of contradicting values
// the smallest counts.
func parseControl(lines []string) directives {
	d := make(directives)
	for _, line := range lines {
		for line != "" {
			var name, value string
			var ok bool
			if name, value, line, ok = scanDirective(line); !ok {
				d.add("no-store", "")
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
		return nil, false
	}
	d = make(directives)
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

// parseSeconds parses digits, and limits the result to maxSeconds.
func parseSeconds(s string) (n int64, ok bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, _ = strconv.ParseInt(s, 10, 64) // the largest number if it is larger
	return min(n, maxSeconds), true
}
