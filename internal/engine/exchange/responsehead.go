package exchange

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// appendFields appends the handler's fields to the output, sorted by name as in net/http, and
// records them in the summary. An interim response omits fields that concern the final one.
func (w *Response) appendFields(interim bool) {
	c := w.Conn
	c.Summary.fieldCount = len(w.fields)
	if values, ok := w.fields["Content-Type"]; ok && len(w.fields) == 1 {
		// Most handlers set no other field, and walking a map starts with a random number.
		if w.applyField("Content-Type", values, interim) {
			w.appendValues("Content-Type", values)
		}
		return
	}
	var few [8]headerField
	fields := few[:0]
	for name, values := range w.fields {
		fields = append(fields, headerField{name, values})
	}
	slices.SortFunc(fields, func(a, b headerField) int { return strings.Compare(a.name, b.name) })
	for _, f := range fields {
		if w.applyField(f.name, f.values, interim) {
			w.appendValues(f.name, f.values)
		}
	}
}

type headerField struct {
	name   string
	values []string
}

// appendValues appends a field line for each value.
func (w *Response) appendValues(name string, values []string) {
	if !http1.ValidToken(name) {
		return // net/http drops it silently, too
	}
	c := w.Conn
	for _, v := range values {
		c.Out = c.sink.AppendField(c.Out, name, v)
	}
}

// applyField records a field in the summary and reports whether to append it as it is. Fields that
// describe the framing are appended once it is decided. A handler suppresses a field by a name
// without values.
func (w *Response) applyField(name string, values []string, interim bool) bool {
	switch name {
	case "Content-Length":
		if !interim {
			w.Conn.Summary.hasLength = true
			w.applyLength(firstValue(values))
		}
		return false
	case "Transfer-Encoding":
		if w.Conn.traits.HasTransferCodings {
			w.Conn.Summary.TransferEncoding = firstValue(values)
		}
		return false
	case "Connection":
		if !w.Conn.traits.HasConnFields {
			return false
		}
		if w.Conn.Summary.Connection = values; http1.HasToken(values, "close") {
			w.ClosesConn = true
		}
		return interim
	case "Content-Type":
		w.Conn.Summary.hasContentType = true
		return w.Status != http.StatusNotModified
	case "Content-Encoding":
		w.Conn.Summary.hasContentEncoding = firstValue(values) != ""
	case "Date":
		w.Conn.Summary.hasDate = true
	case "Trailer":
		w.Conn.Summary.hasTrailers = true
		return w.Conn.traits.HasConnFields
	case "Status", "Keep-Alive", "Upgrade":
		return w.Conn.traits.HasConnFields
	default:
		if strings.HasPrefix(name, http.TrailerPrefix) {
			w.Conn.Summary.hasTrailers = true
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

func (w *Response) applyLength(value string) {
	if value == "" {
		return
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		w.Conn.Config.Server.Logf("http: invalid Content-Length of %q", value)
		w.Conn.Summary.hasLength = false
		return
	}
	w.Length = n
}

// frame decides how the body is delimited, and completes the head. p is the start of the body, or
// all of it if done. The rules and their order are net/http's; see RFC 9112, 6.1 to 6.3 and 9.3.
func (w *Response) frame(p []byte, done bool) {
	w.stage = stageFramed
	c, summary := w.Conn, &w.Conn.Summary
	// trailers are set with the head or after it; HTTP/1.0 has none
	mayHaveTrailers := summary.hasTrailers || len(w.fields) != summary.fieldCount && w.Minor > 0
	hasUnknownLength := mayHaveTrailers && !c.traits.HasLengthsWithTrailers && w.HasTrailers()
	if done && !summary.hasLength && !w.NoBody && !hasUnknownLength && summary.TransferEncoding == "" &&
		(!w.IsHEAD || len(p) > 0) {
		w.Length = int64(len(p))
	}
	if summary.TransferEncoding != "" && summary.TransferEncoding != "identity" && w.Length >= 0 {
		c.Config.Server.Logf("http: WriteHeader called with both Transfer-Encoding of %q and a Content-Length of %d",
			summary.TransferEncoding, w.Length)
		w.Length = -1
	}
	fields := ServerFields{Length: w.Length, SendsDate: !summary.hasDate}
	if w.Status == http.StatusNoContent || w.Status < 200 || // neither may have Content-Length
		w.Status == http.StatusNotModified || w.OpensTunnel() { // net/http omits it
		fields.Length = -1
	}
	if !summary.hasContentType && !summary.hasContentEncoding && summary.TransferEncoding == "" && !w.NoBody &&
		len(p) > 0 {
		fields.ContentType = http.DetectContentType(p)
	}
	c.sink.Delimit(w, fields)
	c.sink.EndHead(w)
}

// DrainRequestBody reads the remainder of the request's body before the response is sent, because
// many clients send everything before they read. If that prevents another request, the connection
// becomes one that closes, as with net/http also if the client announced the body with Expect.
func (w *Response) DrainRequestBody() {
	b := &w.x.Body
	switch {
	case w.ClosesConn || !b.hasRemainder():
	case !b.expectsContinue && w.Flags.Has(FullDuplex): // the handler may continue to read
	case b.expectsContinue || !b.drain():
		w.ClosesConn, w.Conn.Summary.Connection = true, nil
		b.flags.Set(bodyEndsConn)
	}
}
