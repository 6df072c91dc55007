package exchange

import (
	"bytes"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/wire/http1"
)

// mayCommit reports whether code begins the final response. If not, it handles the call.
func (w *Response) mayCommit(code int) bool {
	switch {
	case w.IsHijacked():
		w.logMisuse("response.WriteHeader on hijacked connection")
		return false
	case w.stage != stageOpen:
		w.logMisuse("superfluous response.WriteHeader call")
		return false
	case code < 100 || code > 999:
		// the handler's bug; net/http's text
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	case code < 200 && code != http.StatusSwitchingProtocols:
		w.sendInterim(code)
		return false
	}
	return true
}

func (w *Response) sendInterim(code int) {
	if code == http.StatusContinue {
		w.x.Body.endContinue(bodyContinued)
	}
	c := w.Conn
	if !c.traits.HasInterim || w.Minor == 0 { // HTTP/1.0 has no interim responses (RFC 9110, 15.2)
		return
	}
	c.sink.BeginHead(w, code)
	w.appendFields(true)
	w.endInterim()
	c.Summary = FieldSummary{} // the handler may remove fields before the final response
}

// endInterim completes an interim response and sends it. Once the final head has begun, only HTTP/2
// can send one, and EndHead has done so.
func (w *Response) endInterim() {
	if w.Conn.sink.EndHead(w); w.stage == stageOpen {
		_ = w.Conn.Flush()
	}
}

func (w *Response) commit(code int) {
	w.startHead(code)
	if w.fields != nil {
		w.appendFields(false)
	}
}

func (w *Response) startHead(code int) {
	if w.x.Body.Mode != ByStream {
		// A client that waits for "100 Continue" receives this status instead. It may never send the
		// body, so that Read fails.
		flags := uint32(bodyContinued | bodyWithheld)
		if code != http.StatusSwitchingProtocols {
			flags |= bodyClosed
		}
		w.x.Body.endContinue(flags)
	}
	w.stage, w.Status = stageCommitted, uint16(code)
	w.NoBody = !http1.BodyAllowed(code)
	if code == http.StatusSwitchingProtocols {
		w.ClosesConn = true // the other protocol needs Hijack; no request can follow
	}
	w.Conn.responseStart = len(w.Conn.Out)
	w.Conn.sink.BeginHead(w, code)
}

// OpensTunnel reports whether a tunnel follows the head, not a body (RFC 9110, 9.3.6). What the
// handler writes is sent as it is.
func (w *Response) OpensTunnel() bool { return w.IsCONNECT && w.Status >= 200 && w.Status < 300 }

// StatusText returns the reason phrase of a status.
func StatusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return text
	}
	return "status code " + strconv.Itoa(code)
}

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
	for _, f := range sortFields(few[:0], w.fields) {
		if w.applyField(f.name, f.values, interim) {
			w.appendValues(f.name, f.values)
		}
	}
}

type headerField struct {
	name   string
	values []string
}

// sortFields appends the fields to room, which is empty, sorted by name. What fits is inserted
// field by field, which is faster than slices.SortFunc for a few.
func sortFields(room []headerField, fields http.Header) []headerField {
	fits := len(fields) <= cap(room)
	for name, values := range fields {
		i := len(room)
		room = append(room, headerField{})
		for ; fits && i > 0 && name < room[i-1].name; i-- {
			room[i] = room[i-1]
		}
		room[i] = headerField{name, values}
	}
	if !fits {
		slices.SortFunc(room, func(a, b headerField) int { return strings.Compare(a.name, b.name) })
	}
	return room
}

func (w *Response) appendValues(name string, values []string) {
	if !http1.ValidToken(name) {
		return // net/http omits it silently, too
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
		if w.Conn.Summary.Connection = values; !interim && http1.HasToken(values, "close") {
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
		w.Conn.Summary.trailer, w.Conn.Summary.hasTrailers = slices.Clone(values), len(values) > 0
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

// MaxTrailerBytes limits a request's trailer section.
const MaxTrailerBytes = 8 << 10

// TrailerLimits returns the limits of a trailer section.
func (p *Config) TrailerLimits() http1.Limits {
	return http1.Limits{Bytes: MaxTrailerBytes, Fields: p.Limits.Fields}
}

// AppendTrailers appends the response's trailer fields: those announced in Trailer, and those with
// http.TrailerPrefix.
func (w *Response) AppendTrailers() {
	for _, list := range w.Conn.Summary.trailer {
		for name := range http1.Elements(list) {
			name = http.CanonicalHeaderKey(name)
			w.appendTrailer(name, w.fields[name])
		}
	}
	for name, values := range w.fields {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			w.appendTrailer(name, values)
		}
	}
}

func (w *Response) appendTrailer(name string, values []string) {
	if http1.TrailerAllowed(name) {
		w.appendValues(name, values)
	}
}

// HasTrailers reports whether the handler has announced trailer fields, or has set one by prefix.
func (w *Response) HasTrailers() bool {
	if w.Conn.Summary.hasTrailers {
		return true
	}
	for name := range w.fields {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

func (w *Response) TakesRawHeader(int) bool {
	_, connection := w.fields["Connection"]
	return len(w.fields) == 0 || len(w.fields) == 1 && connection
}

func (w *Response) WriteRawHeader(code int, head []byte, fields []http1.Field, later connection.HeaderAdder) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if !w.mayCommit(code) {
		return
	}
	w.startHead(code)
	c := w.Conn
	for i := range fields {
		if f := &fields[i]; w.applyRawField(f, head) {
			c.Out = c.sink.AppendRawField(c.Out, f.Name.In(head), f.Value.In(head))
		}
	}
	if w.fields != nil {
		w.appendFields(false)
	}
	c.Summary.hasContentType, c.Summary.later = true, later
}

// applyRawField is applyField for a field as it was received. Fields that concern the connection
// are dropped: the response sets its own.
func (w *Response) applyRawField(f *http1.Field, head []byte) bool {
	switch f.Known {
	case http1.NameUnknown:
		name := f.Name.In(head)
		return !bytes.EqualFold(name, []byte("Status")) || w.Conn.traits.HasConnFields
	case http1.NameContentLength:
		w.Length, _ = http1.ParseLength(f.Value.In(head)) // the parser accepts no other
		w.Conn.Summary.hasLength = true
		return false
	case http1.NameContentType:
		return w.Status != http.StatusNotModified
	case http1.NameDate:
		w.Conn.Summary.hasDate = true
	case http1.NameConnection, http1.NameTransferEncoding, http1.NameTrailer, http1.NameUpgrade, http1.NameKeepAlive:
		return false
	}
	return true
}

// logMisuse logs a misuse of the response with the handler's line. As in net/http, functions such as
// http.Error are not the handler.
func (w *Response) logMisuse(what string) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	frame, more := frames.Next()
	for more && (strings.Contains(frame.Function, "/internal/engine/exchange.") ||
		strings.HasPrefix(frame.Function, "net/http.")) {
		frame, more = frames.Next()
	}
	w.x.ctx.transport.Logf("http: %s from %s (%s:%d)", what, frame.Function, path.Base(frame.File), frame.Line)
}
