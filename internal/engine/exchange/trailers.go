package exchange

import (
	"net/http"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// MaxTrailerBytes limits a request's trailer section.
const MaxTrailerBytes = 8 << 10

// TrailerLimits returns the limits of a trailer section.
func (p *Config) TrailerLimits() http1.Limits {
	return http1.Limits{Bytes: MaxTrailerBytes, Fields: p.Limits.Fields}
}

// AppendTrailers appends the response's trailer fields: those announced in Trailer, and those with
// http.TrailerPrefix.
func (w *Response) AppendTrailers(out []byte) []byte {
	for _, list := range w.fields["Trailer"] {
		for name := range http1.Elements(list) {
			name = http.CanonicalHeaderKey(name)
			out = w.appendTrailer(out, name, w.fields[name])
		}
	}
	for name, values := range w.fields {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			out = w.appendTrailer(out, name, values)
		}
	}
	return out
}

// appendTrailer omits invalid names silently, as net/http does.
func (w *Response) appendTrailer(out []byte, name string, values []string) []byte {
	if !http1.TrailerAllowed(name) {
		return out
	}
	for _, v := range values {
		out = w.Conn.sink.AppendField(out, name, v)
	}
	return out
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
