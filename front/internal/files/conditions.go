package files

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/byterange"
)

// outcome is the result of preconditions and ranges.
type outcome struct {
	status int
	ranges []byterange.Range // of a 206
}

// judge evaluates a request's preconditions in their order, and its ranges: RFC 9110, 13.2.2 and
// 14.2.
func (p *plan) judge(r *http.Request, v *variant) outcome {
	if s := p.precondition(r.Header, v); s != http.StatusOK {
		return outcome{status: s}
	}
	if r.Method != http.MethodGet || p.config.MaxRanges < 0 { // ranges are defined for GET only
		return outcome{status: http.StatusOK}
	}
	wanted := r.Header.Get("Range")
	if wanted == "" || !ifRange(r.Header, v) {
		return outcome{status: http.StatusOK}
	}
	ranges, err := byterange.Parse(wanted, v.size, p.config.MaxRanges)
	switch {
	case err != nil:
		return outcome{status: http.StatusRequestedRangeNotSatisfiable}
	case ranges == nil:
		return outcome{status: http.StatusOK}
	}
	return outcome{http.StatusPartialContent, coalesce(ranges)}
}

// coalesce joins ranges that overlap or touch, as RFC 9110, 14.2 suggests. Without any it keeps the
// order of the request.
func coalesce(ranges []byterange.Range) []byterange.Range {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b byterange.Range) int { return cmp.Compare(a.From, b.From) })
	merged := sorted[:1]
	for _, r := range sorted[1:] {
		if last := &merged[len(merged)-1]; r.From <= last.End() {
			last.Length = max(last.End(), r.End()) - last.From
			continue
		}
		merged = append(merged, r)
	}
	if len(merged) == len(ranges) {
		return ranges
	}
	return merged
}

func (p *plan) precondition(header http.Header, v *variant) (status int) {
	if list := joined(header, "If-Match"); list != "" {
		if !listed(list, v.etag, false) {
			return http.StatusPreconditionFailed
		}
	} else if since, ok := date(header, "If-Unmodified-Since"); ok && !v.modified.IsZero() && v.modified.After(since) {
		return http.StatusPreconditionFailed
	}
	if list := joined(header, "If-None-Match"); list != "" {
		if listed(list, v.etag, true) {
			return http.StatusNotModified // the only methods are GET and HEAD
		}
	} else if since, ok := date(header, "If-Modified-Since"); ok && !v.modified.IsZero() && !v.modified.After(since) &&
		(!p.config.ModifiedExact || v.modified.Equal(since)) {
		return http.StatusNotModified
	}
	return http.StatusOK
}

// ifRange reports whether If-Range matches the current file. A time has whole seconds. It is a
// strong validator only if nothing can have changed within that second, so recent times do not
// match (RFC 9110, 8.8.2.2).
func ifRange(header http.Header, v *variant) bool {
	value := joined(header, "If-Range")
	if value == "" {
		return true
	}
	if tag, rest, ok := scanETag(value); ok {
		return strings.TrimSpace(rest) == "" && strong(tag, v.etag)
	}
	t, err := http.ParseTime(value)
	return err == nil && !v.modified.IsZero() && t.Equal(v.modified) && time.Since(v.modified) >= 2*time.Second
}

// listed reports whether a list of entity tags, or "*", contains one.
func listed(list, etag string, weakly bool) bool {
	list = strings.Trim(list, " \t")
	if list == "*" {
		return true
	}
	for list != "" {
		if list = strings.TrimLeft(list, " \t,"); list == "" {
			return false
		}
		tag, rest, ok := scanETag(list)
		if !ok {
			return false
		}
		if strong(tag, etag) || weakly && strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
			return true
		}
		list = rest
	}
	return false
}

func strong(a, b string) bool { return a == b && a != "" && a[0] == '"' }

// scanETag cuts an entity tag off the beginning of a list: RFC 9110, 8.8.3.
func scanETag(s string) (tag, rest string, ok bool) {
	start := 0
	if strings.HasPrefix(s, "W/") {
		start = 2
	}
	if len(s) <= start || s[start] != '"' {
		return "", "", false
	}
	for i := start + 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return s[:i+1], s[i+1:], true
		case c < 0x21 || c == 0x7f:
			return "", "", false
		}
	}
	return "", "", false
}

func date(header http.Header, name string) (t time.Time, ok bool) {
	values := header[name]
	if len(values) != 1 {
		return t, false
	}
	t, err := http.ParseTime(values[0])
	return t, err == nil
}

// joined returns the value of a list field, in any number of lines.
func joined(header http.Header, name string) string { return strings.Join(header[name], ", ") }
