package byterange

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Selector evaluates the preconditions and ranges of requests. The zero value is valid.
type Selector struct {
	// ModifiedExact requires If-Modified-Since to be equal to the time of the last change, as in
	// nginx. Otherwise it may be later, too.
	ModifiedExact bool
	// MaxRanges bounds the ranges of a request: with more it gets the whole representation. 0 is Max,
	// which is also the most, and a negative value disables ranges.
	MaxRanges int
}

// Single returns a Selector for a representation that can be read only once: it selects at most one
// range.
func (s Selector) Single() Selector {
	if s.MaxRanges >= 0 {
		s.MaxRanges = 1
	}
	return s
}

// Selection is what a request gets instead of a response with status 200.
type Selection struct {
	Status int // 206, 304, 412 or 416, or 200 for the whole representation
	ranges []Range
	size   int64
}

// Part is a range with the delimiters around it, if there are several.
type Part struct {
	Range
	Before, After string
}

// Select evaluates a request's preconditions in their order, and its ranges: RFC 9110, 13.2.2 and
// 14.2. The method is GET or HEAD. modified is zero if it is unknown.
func (s Selector) Select(header http.Header, etag string, modified time.Time, size int64) Selection {
	if status := s.precondition(header, etag, modified); status != http.StatusOK {
		return Selection{Status: status}
	}
	wanted := header.Get("Range")
	if wanted == "" || s.MaxRanges < 0 || !ifRange(header, etag, modified) {
		return Selection{Status: http.StatusOK}
	}
	ranges, err := Parse(wanted, size, cmp.Or(s.MaxRanges, Max))
	switch {
	case err != nil:
		return Selection{Status: http.StatusRequestedRangeNotSatisfiable, size: size}
	case ranges == nil:
		return Selection{Status: http.StatusOK}
	}
	return Selection{http.StatusPartialContent, ranges, size}
}

func (s Selector) precondition(header http.Header, etag string, modified time.Time) (status int) {
	if list := joined(header, "If-Match"); list != "" {
		if !listed(list, etag, false) {
			return http.StatusPreconditionFailed
		}
	} else if since, ok := date(header, "If-Unmodified-Since"); ok && !modified.IsZero() && modified.After(since) {
		return http.StatusPreconditionFailed
	}
	if list := joined(header, "If-None-Match"); list != "" {
		if listed(list, etag, true) {
			return http.StatusNotModified
		}
	} else if since, ok := date(header, "If-Modified-Since"); ok && !modified.IsZero() && !modified.After(since) &&
		(!s.ModifiedExact || modified.Equal(since)) {
		return http.StatusNotModified
	}
	return http.StatusOK
}

// IsUnmet reports whether a precondition failed, or a range cannot be satisfied.
func (s Selection) IsUnmet() bool {
	return s.Status == http.StatusPreconditionFailed || s.Status == http.StatusRequestedRangeNotSatisfiable
}

// SetHeader changes the header of a 200 into that of the Selection. It returns the parts of a 206.
func (s Selection) SetHeader(header http.Header) []Part {
	switch s.Status {
	case http.StatusPartialContent:
		return s.setParts(header)
	case http.StatusNotModified: // RFC 9110, 15.4.5
		remove(header, "Accept-Ranges", "Content-Encoding", "Content-Length", "Content-Type")
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		remove(header, "Cache-Control", "Content-Encoding", "Content-Length", "Content-Type", "Etag", "Last-Modified")
		if s.Status == http.StatusRequestedRangeNotSatisfiable {
			header["Content-Range"] = []string{"bytes */" + strconv.FormatInt(s.size, 10)}
		}
	}
	return nil
}

func remove(header http.Header, names ...string) {
	for _, name := range names {
		delete(header, name)
	}
}

func (s Selection) setParts(header http.Header) []Part {
	if len(s.ranges) == 1 {
		r := s.ranges[0]
		header["Content-Range"] = []string{r.ContentRange(s.size)}
		header["Content-Length"] = []string{strconv.FormatInt(r.Length, 10)}
		return []Part{{Range: r}}
	}
	boundary, contentType := rand.Text(), header.Get("Content-Type")
	parts, length := make([]Part, len(s.ranges)), int64(0)
	delimiter := "--" + boundary
	for i, r := range s.ranges {
		before := delimiter + "\r\n"
		if contentType != "" {
			before += "Content-Type: " + contentType + "\r\n"
		}
		parts[i] = Part{Range: r, Before: before + "Content-Range: " + r.ContentRange(s.size) + "\r\n\r\n"}
		length += int64(len(parts[i].Before)) + r.Length
		delimiter = "\r\n--" + boundary
	}
	after := delimiter + "--\r\n"
	parts[len(parts)-1].After = after
	header["Content-Type"] = []string{"multipart/byteranges; boundary=" + boundary}
	header["Content-Length"] = []string{strconv.FormatInt(length+int64(len(after)), 10)}
	return parts
}

// ifRange reports whether If-Range matches the current representation. A time has whole seconds. It
// is a strong validator only if nothing can have changed within that second, so recent times do not
// match (RFC 9110, 8.8.2.2).
func ifRange(header http.Header, etag string, modified time.Time) bool {
	value := joined(header, "If-Range")
	if value == "" {
		return true
	}
	if tag, rest, ok := scanETag(value); ok {
		return strings.TrimSpace(rest) == "" && strong(tag, etag)
	}
	t, err := http.ParseTime(value)
	return err == nil && !modified.IsZero() && t.Equal(modified) && time.Since(modified) >= 2*time.Second
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
