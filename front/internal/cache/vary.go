package cache

import (
	"hash/maphash"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// choice is a field that Vary lists, with its value in the request of the stored response: RFC
// 9111, 4.1.
type choice struct{ name, value string }

// valueOf returns the normalized value of a request's field, by its canonical name.
func valueOf(request Fields, name string) string {
	value := normalize(request.Field(name))
	if name == "Host" {
		return strings.ToLower(value)
	}
	return value
}

// choices returns the fields in Vary, sorted, with their values in a request. It returns false if
// they cannot select a response, or are too many or too long.
func choices(lines []string, request Fields) (all []choice, ok bool) {
	total := 0
	for _, line := range lines {
		for name := range http1.Elements(line) {
			if name == "*" || len(all) == maxVary {
				return nil, false
			}
			name = http.CanonicalHeaderKey(name)
			value := valueOf(request, name)
			if total += len(name) + len(value); total > maxVaryBytes {
				return nil, false
			}
			all = append(all, choice{name, value})
		}
	}
	slices.SortFunc(all, func(a, b choice) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(all), true
}

// normalize removes what makes no difference in a list: its division into lines, and white space
// around commas. An empty field differs from a missing one.
func normalize(lines []string) string {
	switch {
	case lines == nil:
		return "\x00"
	case len(lines) == 1 && !strings.ContainsAny(lines[0], ", \t"):
		return lines[0]
	}
	var b strings.Builder
	for _, line := range lines {
		for element := range http1.Elements(line) {
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(element)
		}
	}
	return b.String()
}

// isChosen reports whether a request has the same values, of which some are known. It returns the
// name of a field that it needs and that is not.
func isChosen(all, known []choice) (is bool, needed string) {
	for _, c := range all {
		i := slices.IndexFunc(known, func(k choice) bool { return k.name == c.name })
		switch {
		case i < 0:
			return false, c.name
		case known[i].value != c.value:
			return false, ""
		}
	}
	return true, ""
}

// hashChoices returns a hash that is the same for equal choices in one process.
func hashChoices(seed maphash.Seed, all []choice) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, c := range all {
		maphash.WriteComparable(&h, c)
	}
	return h.Sum64()
}
