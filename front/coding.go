package front

import (
	"net/http"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// acceptsCoding parses Accept-Encoding as nginx does: the coding must be named, with a weight other
// than 0.
func acceptsCoding(values []string, coding string) bool {
	for _, value := range values {
		for value != "" {
			var element string
			element, value, _ = strings.Cut(value, ",")
			name, parameter, weighed := strings.Cut(element, ";")
			if !strings.EqualFold(strings.Trim(name, " \t"), coding) {
				continue
			}
			parameter = strings.Trim(parameter, " \t")
			if !weighed || parameter == "" {
				return true
			}
			q, ok := strings.CutPrefix(strings.ToLower(parameter), "q=")
			return ok && positiveWeight(q)
		}
	}
	return false
}

// positiveWeight reports whether a weight (RFC 9110, 12.4.2) is valid and not zero.
func positiveWeight(q string) bool {
	if q == "" || len(q) > len("0.000") || q[0] != '0' && q[0] != '1' || len(q) > 1 && q[1] != '.' {
		return false
	}
	digits := strings.Trim(q[min(len(q), 2):], "0")
	if q[0] == '1' {
		return digits == ""
	}
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// addVary adds Accept-Encoding to Vary.
func addVary(header http.Header) {
	if vary := header["Vary"]; !http1.HasToken(vary, "Accept-Encoding") && !http1.HasToken(vary, "*") {
		header["Vary"] = append(vary[:len(vary):len(vary)], "Accept-Encoding")
	}
}

// weakenEtag makes Etag weak (RFC 9110, 8.8.1), because the response has other bytes.
func weakenEtag(header http.Header) {
	tag := header.Get("Etag")
	switch {
	case tag == "" || strings.HasPrefix(tag, "W/"):
	case strings.HasPrefix(tag, `"`):
		header["Etag"] = []string{"W/" + tag}
	default:
		delete(header, "Etag") // it is invalid
	}
}
