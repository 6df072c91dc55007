package cache

import (
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
)

// choice is a field that Vary lists, with its value in the request of the stored response: RFC
// 9111, 4.1.
type choice struct{ name, value string }

// varies reports whether a response can be selected by the fields in its Vary.
func varies(lines []string) bool {
	n := 0
	for name := range listed(lines) {
		if n++; name == "*" || n > maxVary {
			return false
		}
	}
	return true
}

// listed iterates over the elements of a field that is a list of names.
func listed(lines []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for name := range strings.SplitSeq(line, ",") {
				if name = trim(name); name != "" && !yield(name) {
					return
				}
			}
		}
	}
}

// fields are those of a request as the origin receives it: fields that the front removes or
// replaces do not affect a response. Host is separate, as in net/http.
type fields struct {
	origin Origin // nil if the fields are known
	header http.Header
	host   string
}

// find requests the fields from the origin. It must be called before the client's request ends.
func (f *fields) find() {
	if f.origin != nil {
		f.header, f.host = f.origin.Sent()
		f.origin = nil
	}
}

// value returns the normalized value of a field, by its canonical name.
func (f *fields) value(name string) string {
	f.find()
	if name == "Host" {
		return strings.ToLower(f.host)
	}
	return normalize(f.header[name])
}

// authorized reports whether the origin receives credentials: RFC 9111, 3.5.
func (f *fields) authorized() bool {
	f.find()
	return len(f.header["Authorization"]) > 0
}

// choices returns the fields in Vary, sorted, with their values in a request. It returns false if
// they are too long.
func choices(lines []string, request *fields) (all []choice, ok bool) {
	total := 0
	for name := range listed(lines) {
		name = http.CanonicalHeaderKey(name)
		value := request.value(name)
		if total += len(name) + len(value); total > maxVaryBytes {
			return nil, false
		}
		all = append(all, choice{name, value})
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
		for element := range strings.SplitSeq(line, ",") {
			if element = trim(element); element != "" {
				if b.Len() > 0 {
					b.WriteByte(',')
				}
				b.WriteString(element)
			}
		}
	}
	return b.String()
}

// chosen reports whether a request has the same values.
func chosen(all []choice, request *fields) bool {
	for i := range all {
		if request.value(all[i].name) != all[i].value {
			return false
		}
	}
	return true
}

// hashChoices returns a hash that is the same for equal choices in one process.
func hashChoices(seed maphash.Seed, all []choice) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, c := range all {
		_, _ = h.WriteString(c.name)
		_ = h.WriteByte(0)
		_, _ = h.WriteString(c.value)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}
