package files

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

type span struct{ from, length int64 }

func (s span) end() int64 { return s.from + s.length }

// contentRange returns the value of Content-Range: RFC 9110, 14.4.
func (s span) contentRange(size int64) string {
	return "bytes " + strconv.FormatInt(s.from, 10) + "-" + strconv.FormatInt(s.end()-1, 10) + "/" +
		strconv.FormatInt(size, 10)
}

// errRange reports that a range is invalid, or that all ranges are outside of the file.
var errRange = errors.New("range not satisfiable")

// parseRange parses a Range field. Nil means the whole file: the unit is unknown, the file is
// empty, there are more ranges than most within the file or than maxRanges in all, or they are
// longer than the file. As RFC 9110, 14.2 suggests, ranges that overlap or touch are joined. Thus
// no response is much longer than the file.
func parseRange(value string, size int64, most int) ([]span, error) {
	unit, list, ok := strings.Cut(value, "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || strings.Count(list, ",") >= 2*maxRanges {
		return nil, nil
	}
	var spans []span
	given, total := 0, int64(0)
	for element := range strings.SplitSeq(list, ",") {
		if element = strings.Trim(element, " \t"); element == "" {
			continue
		}
		s, err := parseSpan(element, size)
		if err != nil {
			return nil, err
		}
		if given++; s.length > 0 {
			spans = append(spans, s)
			total += min(s.length, math.MaxInt64-total)
		}
	}
	switch {
	case given == 0:
		return nil, errRange
	case size == 0, given > maxRanges, len(spans) > most, len(spans) > 1 && total > size:
		// many clients request a range only to limit the length
		return nil, nil
	case len(spans) == 0:
		return nil, errRange
	}
	return coalesce(spans), nil
}

// parseSpan parses "first-", "first-last" or "-length". The part beyond the end is cut off.
func parseSpan(s string, size int64) (span, error) {
	first, last, ok := strings.Cut(s, "-")
	if !ok {
		return span{}, errRange
	}
	first, last = strings.Trim(first, " \t"), strings.Trim(last, " \t")
	if first == "" {
		n, err := parsePosition(last)
		n = min(n, size)
		return span{size - n, n}, err
	}
	from, err := parsePosition(first)
	if err != nil {
		return span{}, err
	}
	to := int64(math.MaxInt64)
	if last != "" {
		if to, err = parsePosition(last); err != nil {
			return span{}, err
		}
		if to < from {
			return span{}, errRange
		}
	}
	if from >= size {
		return span{}, nil
	}
	return span{from, min(to, size-1) - from + 1}, nil
}

// parsePosition parses digits. A number that is too large is beyond any file's end.
func parsePosition(s string) (n int64, err error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, errRange
	}
	n, _ = strconv.ParseInt(s, 10, 64)
	return n, nil
}

// coalesce joins spans that overlap or touch. Without any it keeps the order of the request.
func coalesce(spans []span) []span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	merged := sorted[:1]
	for _, s := range sorted[1:] {
		if last := &merged[len(merged)-1]; s.from <= last.end() {
			last.length = max(last.end(), s.end()) - last.from
			continue
		}
		merged = append(merged, s)
	}
	if len(merged) == len(spans) {
		return spans
	}
	return merged
}
