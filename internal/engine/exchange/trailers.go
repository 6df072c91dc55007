package exchange

import (
	"errors"
	"iter"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// MaxTrailerBytes limits a request's trailer section.
const MaxTrailerBytes = 8 << 10

// TrailerLimits returns the limits of a trailer section.
func (p *Config) TrailerLimits() http1.Limits {
	return http1.Limits{Bytes: MaxTrailerBytes, Fields: p.Limits.Fields}
}

// Errors of AnnounceTrailer.
var (
	ErrTrailerName      = errors.New("trailer field not allowed")
	ErrTooManyAnnounced = errors.New("too many names in the Trailer field")
)

// RefusalStatus returns the status of the response to a request with an error of AnnounceTrailer or
// SetURL.
func RefusalStatus(err error) int {
	if errors.Is(err, ErrTooManyAnnounced) {
		return http.StatusRequestHeaderFieldsTooLarge
	}
	return http.StatusBadRequest
}

// AnnounceTrailer moves the request's Trailer field to Request.Trailer, as keys without values. It
// skips names that a trailer must not have, and then returns ErrTrailerName.
func (p *Config) AnnounceTrailer(r *http.Request) (err error) {
	lists, ok := r.Header["Trailer"]
	if !ok {
		return nil
	}
	n := 0
	for name := range listElements(lists) {
		if n++; n > p.Limits.Fields {
			return ErrTooManyAnnounced
		}
		switch name = textproto.CanonicalMIMEHeaderKey(name); {
		case name == "":
			continue
		case !http1.TrailerAllowed(name):
			err = ErrTrailerName
			continue
		case r.Trailer == nil:
			r.Trailer = make(http.Header)
		}
		r.Trailer[name] = nil
	}
	delete(r.Header, "Trailer")
	return err
}

// AppendTrailers appends the response's trailer fields: those announced in Trailer, and those with
// http.TrailerPrefix.
func (w *Response) AppendTrailers(out []byte) []byte {
	for name := range listElements(w.Fields["Trailer"]) {
		name = http.CanonicalHeaderKey(name)
		out = w.appendTrailer(out, name, w.Fields[name])
	}
	for name, values := range w.Fields {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			out = w.appendTrailer(out, name, values)
		}
	}
	return out
}

// appendTrailer omits invalid names silently, as net/http does.
func (w *Response) appendTrailer(out []byte, name string, values []string) []byte {
	if !http1.ValidToken(name) || !http1.TrailerAllowed(name) {
		return out
	}
	for _, v := range values {
		out = w.Conn.Codec.AppendField(out, name, v)
	}
	return out
}

// HasTrailers reports whether the handler has announced trailer fields, or has set one by prefix.
func (w *Response) HasTrailers() bool {
	if w.Conn.Summary.hasTrailers {
		return true
	}
	for name := range w.Fields {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// listElements iterates over the elements of list fields.
func listElements(lists []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, list := range lists {
			for element := range strings.SplitSeq(list, ",") {
				if !yield(strings.TrimSpace(element)) {
					return
				}
			}
		}
	}
}
