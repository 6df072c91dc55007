// Package message has rules about requests and responses that depend on nothing else, mostly nginx's
// reading of RFC 9110.
package message

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/internal/wire/http1"
)

// ContentLength returns the request's Content-Length; empty if it has none.
func ContentLength(r *http.Request) string {
	if r.ContentLength > 0 || r.ContentLength == 0 && r.Header["Content-Length"] != nil {
		return strconv.FormatInt(r.ContentLength, 10)
	}
	return ""
}

// Argument returns the value of the first argument of a name in a query, undecoded. Names are
// compared without regard to case. As in nginx an argument without a name has no value.
func Argument(args, name string) string {
	for args != "" && name != "" {
		var one string
		one, args, _ = strings.Cut(args, "&")
		if len(one) > len(name) && one[len(name)] == '=' && strings.EqualFold(one[:len(name)], name) {
			return one[len(name)+1:]
		}
	}
	return ""
}

// Cookie returns the value of the first cookie of a name. Names are compared without regard to
// case. As in nginx a comma may precede a cookie but does not end one, and spaces around the equals
// sign are ignored.
func Cookie(lines []string, name string) string {
	for _, line := range lines {
		for line != "" {
			line = strings.TrimLeft(line, " ")
			if len(line) > len(name) && strings.EqualFold(line[:len(name)], name) {
				if value, ok := strings.CutPrefix(strings.TrimLeft(line[len(name):], " "), "="); ok {
					value, _, _ = strings.Cut(strings.TrimLeft(value, " "), ";")
					return value
				}
			}
			end := strings.IndexAny(line, ";,")
			if end < 0 {
				break
			}
			line = line[end+1:]
		}
	}
	return ""
}

// FirstValue returns the first value, "" without one.
func FirstValue(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// DeclaredLength returns the value of Content-Length.
func DeclaredLength(header http.Header) (int64, bool) {
	value := header.Get("Content-Length")
	if value == "" {
		return 0, false
	}
	n, err := grammar.ParseNumber(value)
	return n, err == nil
}

// SameTime reports whether two dates are the same time.
func SameTime(a, b string) bool {
	x, errA := http.ParseTime(a)
	y, errB := http.ParseTime(b)
	return errA == nil && errB == nil && x.Equal(y)
}

// AcceptsCoding parses Accept-Encoding as nginx does: the coding must be named, with a weight other
// than 0.
func AcceptsCoding(values []string, coding string) bool {
	for _, value := range values {
		for value != "" {
			var element string
			element, value, _ = strings.Cut(value, ",")
			name, parameters, _ := strings.Cut(element, ";")
			if strings.EqualFold(strings.Trim(name, " \t"), coding) {
				q, ok := grammar.ParseWeight(parameters)
				return ok && q > 0
			}
		}
	}
	return false
}

// AddVary adds Accept-Encoding to Vary.
func AddVary(header http.Header) {
	if vary := header["Vary"]; !http1.HasToken(vary, "Accept-Encoding") && !http1.HasToken(vary, "*") {
		header["Vary"] = append(slices.Clip(vary), "Accept-Encoding")
	}
}

// ReplaceBody prepares a header for a body of other bytes and of another length. Etag becomes weak
// (RFC 9110, 8.8.1).
func ReplaceBody(header http.Header) {
	delete(header, "Content-Length")
	delete(header, "Accept-Ranges")
	tag := header.Get("Etag")
	switch {
	case tag == "" || strings.HasPrefix(tag, "W/"):
	case strings.HasPrefix(tag, `"`):
		header["Etag"] = []string{"W/" + tag}
	default:
		delete(header, "Etag") // it is invalid
	}
}

// Without returns a request without some fields: a copy if it has one of them.
func Without(r *http.Request, names ...string) *http.Request {
	if !slices.ContainsFunc(names, func(name string) bool { return r.Header[name] != nil }) {
		return r
	}
	out := *r
	out.Header = r.Header.Clone()
	for _, name := range names {
		delete(out.Header, name)
	}
	return &out
}

// BodyAllowed reports whether a response with a status has a body (RFC 9110, 6.4.1).
func BodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}
