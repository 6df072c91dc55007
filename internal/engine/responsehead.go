package engine

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// appendFields appends the handler's fields to the output, sorted by name as in net/http, and
// records them in the summary. An interim response omits fields that concern the final one.
func (w *response) appendFields(interim bool) {
	c := w.conn
	c.summary.fieldCount = len(w.header)
	if values, ok := w.header["Content-Type"]; ok && len(w.header) == 1 {
		// Most handlers set no other field, and walking a map starts with a random number.
		if w.applyField("Content-Type", values, interim) {
			c.out = appendField(c.out, "Content-Type", values)
		}
		return
	}
	var few [8]headerField
	fields := few[:0]
	for name, values := range w.header {
		fields = append(fields, headerField{name, values})
	}
	if len(fields) > 1 {
		slices.SortFunc(fields, func(a, b headerField) int { return strings.Compare(a.name, b.name) })
	}
	for _, f := range fields {
		if w.applyField(f.name, f.values, interim) {
			c.out = appendField(c.out, f.name, f.values)
		}
	}
}

type headerField struct {
	name   string
	values []string
}

// appendField appends a field line for each value.
func appendField(out []byte, name string, values []string) []byte {
	if !http1.ValidToken(name) {
		return out // net/http drops it silently, too
	}
	for _, v := range values {
		out = http1.AppendField(out, name, v)
	}
	return out
}

// applyField records a field in the summary and reports whether to append it as it is. Fields that
// describe the framing are appended once it is decided. A handler suppresses a field by a name
// without values.
func (w *response) applyField(name string, values []string, interim bool) bool {
	switch name {
	case "Content-Length":
		if !interim {
			w.conn.summary.hasLength = true
			w.applyLength(firstValue(values))
		}
		return false
	case "Transfer-Encoding":
		if w.conn.codec.sendsField(name) {
			w.conn.summary.transferEncoding = firstValue(values)
		}
		return false
	case "Connection":
		if !w.conn.codec.sendsField(name) {
			return false
		}
		if w.conn.summary.connection = values; hasToken(values, "close") {
			w.closesConn = true
		}
		return interim
	case "Content-Type":
		w.conn.summary.hasContentType = true
		return w.status != http.StatusNotModified
	case "Content-Encoding":
		w.conn.summary.hasContentEncoding = firstValue(values) != ""
	case "Date":
		w.conn.summary.hasDate = true
	case "Trailer":
		w.conn.summary.hasTrailers = true
		return w.conn.codec.sendsField(name)
	case "Status", "Keep-Alive", "Upgrade":
		return w.conn.codec.sendsField(name)
	default:
		if strings.HasPrefix(name, http.TrailerPrefix) {
			w.conn.summary.hasTrailers = true
			return false
		}
	}
	return true
}

func firstValue(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (w *response) applyLength(value string) {
	if value == "" {
		return
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		w.conn.logf("http: invalid Content-Length of %q", value)
		w.conn.summary.hasLength = false
		return
	}
	w.length = n
}

// frame decides how the body is delimited, and completes the head. p is the start of the body, or
// all of it if done. The rules and their order are net/http's; see RFC 9112, 6.1 to 6.3 and 9.3.
func (w *response) frame(p []byte, done bool) {
	w.stage = stageFramed
	c, summary := w.conn, &w.conn.summary
	if done && !summary.hasLength && !w.noBody && !w.hasTrailers() && summary.transferEncoding == "" &&
		(!w.isHEAD || len(p) > 0) {
		w.length = int64(len(p))
	}
	if summary.transferEncoding != "" && summary.transferEncoding != "identity" && w.length >= 0 {
		c.logf("http: WriteHeader called with both Transfer-Encoding of %q and a Content-Length of %d",
			summary.transferEncoding, w.length)
		w.length = -1
	}
	c.codec.delimit(w)
	if !w.closesConn && !w.drainRequestBody() {
		w.closesConn, summary.connection = true, nil
	}

	out := c.out
	switch {
	case w.status == http.StatusNoContent || w.status < 200: // neither may have Content-Length
	case w.status == http.StatusNotModified: // net/http omits Content-Length
	case w.length >= 0:
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, w.length, 10)
		out = append(out, "\r\n"...)
	case w.chunked:
		out = http1.AppendField(out, "Transfer-Encoding", "chunked")
	}
	if !summary.hasContentType && !summary.hasContentEncoding && summary.transferEncoding == "" && !w.noBody &&
		len(p) > 0 {
		out = http1.AppendField(out, "Content-Type", http.DetectContentType(p))
	}
	out = c.codec.appendConnection(out, w)
	if !summary.hasDate {
		out = append(out, "Date: "...)
		out = append(out, c.date.text()...)
		out = append(out, "\r\n"...)
	}
	c.out = http1.AppendHeadEnd(out)
}

// drainRequestBody reads the remainder of the request's body before the response is sent, because
// many clients send everything before they read. It reports whether the connection can be kept. It
// cannot if the client announced a body with Expect and received no "100 Continue": it may or may
// not send the body.
func (w *response) drainRequestBody() bool {
	switch {
	case !w.x.body.hasRemainder():
		return true
	case w.bodyWithheld:
		return false
	case w.flags.has(fullDuplex):
		return true // for now; the handler may continue to read
	}
	return w.x.body.drain()
}

// hasTrailers reports whether the handler has announced trailer fields, or has set one by prefix.
func (w *response) hasTrailers() bool {
	if w.conn.summary.hasTrailers || len(w.header) == w.conn.summary.fieldCount {
		return w.conn.summary.hasTrailers
	}
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// hasToken reports whether a list field contains the token, ignoring case.
func hasToken(values []string, token string) bool {
	for _, list := range values {
		for element := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(element), token) {
				return true
			}
		}
	}
	return false
}
