// Package byterange selects what a request with preconditions or ranges gets of a representation:
// RFC 9110, 13 and 14.
package byterange

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// Max is the most ranges of a request. With more it gets the whole representation.
const Max = 16

// Range is a part of a representation.
type Range struct{ From, Length int64 }

// End returns the position behind the part.
func (r Range) End() int64 { return r.From + r.Length }

// ContentRange returns the value of Content-Range: RFC 9110, 14.4.
func (r Range) ContentRange(size int64) string {
	return "bytes " + strconv.FormatInt(r.From, 10) + "-" + strconv.FormatInt(r.End()-1, 10) + "/" +
		strconv.FormatInt(size, 10)
}

// errRange reports that a range is invalid, or that all ranges are outside of the representation.
var errRange = errors.New("range not satisfiable")

// Parse parses a Range field. It returns nil for the whole representation: if the field has another
// unit, no range, more than Max, or more than most that are satisfiable, if these are together longer
// than the representation, or if that is empty (many clients only mean to limit the length).
func Parse(value string, size int64, most int) ([]Range, error) {
	unit, list, _ := strings.Cut(value, "=")
	if size == 0 || !strings.EqualFold(unit, "bytes") || strings.Count(list, ",") >= 2*Max {
		return nil, nil
	}
	var ranges []Range
	given, total := 0, int64(0)
	for element := range strings.SplitSeq(list, ",") {
		if element = strings.Trim(element, " \t"); element == "" {
			continue
		}
		r, err := parseRange(element, size)
		if err != nil {
			return nil, err
		}
		if given++; r.Length > 0 {
			ranges = append(ranges, r)
			total += min(r.Length, math.MaxInt64-total)
		}
	}
	switch {
	case given > Max, len(ranges) > most, len(ranges) > 1 && total > size:
		return nil, nil
	case len(ranges) == 0 && given > 0:
		return nil, errRange
	}
	return ranges, nil
}

// parseRange parses "first-", "first-last" or "-length". It cuts off the part beyond the end. The
// length of a range outside of the representation is 0.
func parseRange(s string, size int64) (Range, error) {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return Range{}, errRange
	}
	first, last = strings.Trim(first, " \t"), strings.Trim(last, " \t")
	if first == "" {
		n, err := parsePosition(last)
		n = min(n, size)
		return Range{size - n, n}, err
	}
	from, err := parsePosition(first)
	to := int64(math.MaxInt64)
	if last != "" && err == nil {
		to, err = parsePosition(last)
	}
	if err != nil || from >= size || to < from {
		return Range{}, err
	}
	return Range{from, min(to, size-1) - from + 1}, nil
}

func parsePosition(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, errRange
	}
	return int64(n), nil
}

// MaySelect reports whether a request's preconditions and ranges may select less than the whole
// representation.
func MaySelect(header http.Header) bool {
	for _, name := range [...]string{"If-None-Match", "If-Modified-Since", "Range", "If-Match", "If-Unmodified-Since"} {
		if _, ok := header[name]; ok {
			return true
		}
	}
	return false
}
