package engine

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// appendFields appends the handler's fields to the output, sorted by name as
// net/http does, and notes what they say. Of an interim response the fields that
// concern the final one are left out.
func (w *response) appendFields(interim bool) {
	c := w.conn
	c.set.fields = len(w.header)
	if values, ok := w.header["Content-Type"]; ok && len(w.header) == 1 {
		// Most handlers set no other, and walking a map begins by drawing lots.
		if w.noteField("Content-Type", values, interim) {
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
		if w.noteField(f.name, f.values, interim) {
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
		return out // nobody could be told; net/http drops it too
	}
	for _, v := range values {
		out = http1.AppendField(out, name, v)
	}
	return out
}

// noteField reports whether a field goes out as it is. Those that describe the
// framing are written when it is decided. A name without values is how a handler
// says that it wants no such field.
func (w *response) noteField(name string, values []string, interim bool) bool {
	switch name {
	case "Content-Length":
		if !interim {
			w.conn.set.length = true
			w.noteLength(first(values))
		}
		return false
	case "Transfer-Encoding":
		if w.conn.protocol.carries(name) {
			w.conn.set.coding = first(values)
		}
		return false
	case "Connection":
		if !w.conn.protocol.carries(name) {
			return false
		}
		if w.conn.set.connection = values; hasToken(values, "close") {
			w.close = true
		}
		return interim
	case "Content-Type":
		w.conn.set.contentType = true
		return w.status != http.StatusNotModified
	case "Content-Encoding":
		w.conn.set.contentEncoding = first(values) != ""
	case "Date":
		w.conn.set.date = true
	case "Trailer":
		w.conn.set.trailers = true
		return w.conn.protocol.carries(name)
	case "Status", "Keep-Alive", "Upgrade":
		return w.conn.protocol.carries(name)
	default:
		if strings.HasPrefix(name, http.TrailerPrefix) {
			w.conn.set.trailers = true
			return false
		}
	}
	return true
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (w *response) noteLength(value string) {
	if value == "" {
		return
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		w.conn.logf("http: invalid Content-Length of %q", value)
		w.conn.set.length = false
		return
	}
	w.length = n
}

// frame decides how the body is delimited and completes the head. p is the
// beginning of the body, and all of it if done. The rules and their order are
// net/http's; RFC 9112, 6.1 to 6.3 and 9.3.
func (w *response) frame(p []byte, done bool) {
	w.stage = framed
	c, set := w.conn, &w.conn.set
	if done && !set.length && !w.noBody && !w.willHaveTrailers() && set.coding == "" && (!w.head || len(p) > 0) {
		w.length = int64(len(p))
	}
	if set.coding != "" && set.coding != "identity" && w.length >= 0 {
		c.logf("http: WriteHeader called with both Transfer-Encoding of %q and a Content-Length of %d", set.coding, w.length)
		w.length = -1
	}
	c.protocol.delimit(w)
	if !w.close && !w.settleBody() {
		w.close, set.connection = true, nil
	}

	out := c.out
	switch {
	case w.status == http.StatusNoContent || w.status < 200: // neither may have a length
	case w.status == http.StatusNotModified: // net/http leaves it out
	case w.length >= 0:
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, w.length, 10)
		out = append(out, "\r\n"...)
	case w.chunked:
		out = http1.AppendField(out, "Transfer-Encoding", "chunked")
	}
	if !set.contentType && !set.contentEncoding && set.coding == "" && !w.noBody && len(p) > 0 {
		out = http1.AppendField(out, "Content-Type", http.DetectContentType(p))
	}
	out = c.protocol.appendConnection(out, w)
	if !set.date {
		out = append(out, "Date: "...)
		out = append(out, c.date.text()...)
		out = append(out, "\r\n"...)
	}
	c.out = http1.AppendHeadEnd(out)
}

// settleBody reads what the handler left of the request's body before the response
// goes out: many clients send all before they read anything. It reports whether
// the connection can be kept. It cannot when the client was not told to send the
// body it announced: it may or may not.
func (w *response) settleBody() bool {
	switch {
	case !w.x.body.remains():
		return true
	case w.withheld:
		return false
	case w.marks.has(fullDuplex):
		return true // for now: the handler may read on
	}
	return w.x.body.drain()
}

// willHaveTrailers reports whether the handler announced trailer fields, or has
// set some by prefix already.
func (w *response) willHaveTrailers() bool {
	if w.conn.set.trailers || len(w.header) == w.conn.set.fields {
		return w.conn.set.trailers
	}
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// hasToken reports whether a list field holds the token, in any case.
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
