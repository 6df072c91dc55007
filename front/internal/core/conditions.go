package core

import (
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/internal/byterange"
	"github.com/tarehq/tare/front/internal/message"
)

// Selector returns what evaluates conditions and ranges for responses of a location.
func (r *Rules) Selector() byterange.Selector {
	return byterange.Selector{ModifiedExact: r.Settings.ModifiedSince == "", MaxRanges: r.Settings.MaxRanges}
}

// WithConditions returns the request for a Selector. It removes conditions that do not apply here,
// and decides those that compare fields of add_header. A range of a response that is edited would
// refer to the original. contentType may be empty unless EditsBody.
func (x *Exchange) WithConditions(r *http.Request, contentType string) *http.Request {
	if len(r.Header) == 0 {
		return r
	}
	if !x.IsConditional() { // a part of an error's page, or no page, would have the error's status
		return message.Without(r, "If-Match", "If-Modified-Since", "If-None-Match", "If-Unmodified-Since", "Range")
	}
	var drop []string
	if x.Loc.Settings.ModifiedSince == "off" && r.Header["If-Modified-Since"] != nil {
		drop = append(drop, "If-Modified-Since", "If-None-Match")
	}
	if r.Header["Range"] != nil && x.Loc.edits(contentType) {
		drop = append(drop, "Range")
	}
	if r.Header["If-Range"] != nil && r.Header["Range"] != nil {
		switch holds, known := x.ifRange(r.Header.Get("If-Range")); {
		case known && holds:
			drop = append(drop, "If-Range")
		case known, r.Header.Get("If-Range") == "": // as in nginx an empty one never holds
			drop = append(drop, "If-Range", "Range")
		}
	}
	return message.Without(r, drop...)
}

// ifRange compares If-Range with a field of add_header. known is false if there is none. As in
// nginx a value that ends in a quotation mark is an entity tag.
func (x *Exchange) ifRange(value string) (holds, known bool) {
	name := "Last-Modified"
	if strings.HasSuffix(value, `"`) {
		name = "Etag"
	}
	for i := range x.Loc.fields {
		if a := &x.Loc.fields[i]; a.name == name {
			is := a.value.Eval(x)
			holds, known = is != "" && (is == value && name == "Etag" || name == "Last-Modified" &&
				message.SameTime(is, value)), true
		}
	}
	return holds, known
}
