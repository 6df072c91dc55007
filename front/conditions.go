package front

import (
	"net/http"
	"strings"
)

// ModifiedSince says when If-Modified-Since has a response left out: nginx's if_modified_since.
type ModifiedSince int

// Values of ModifiedSince.
const (
	ModifiedSinceExact  ModifiedSince = iota // the response has that time
	ModifiedSinceBefore                      // or an earlier one
	ModifiedSinceOff                         // never, whatever other conditions say
)

// judged returns the request whose conditions are compared with a file or with what is kept: without those that do not
// count here, and with those decided that compare fields which add_header replaces. Last-Modified is lastModified, "" if the caller compares
// times as the location says.
func (x *exchange) withConditions(r *http.Request, lastModified string) *http.Request {
	if len(r.Header) == 0 {
		return r
	}
	var drop []string
	since := r.Header["If-Modified-Since"]
	switch {
	case since == nil:
	case x.loc.settings.ModifiedSince == ModifiedSinceOff:
		drop = append(drop, "If-Modified-Since", "If-None-Match")
	case x.loc.settings.ModifiedSince == ModifiedSinceExact && lastModified != "" && !sameTime(since[0], lastModified):
		drop = append(drop, "If-Modified-Since")
	}
	if r.Header["If-Range"] != nil && r.Header["Range"] != nil {
		switch holds, known := x.ifRange(r.Header.Get("If-Range")); {
		case known && holds:
			drop = append(drop, "If-Range")
		case known:
			drop = append(drop, "If-Range", "Range")
		}
	}
	if drop == nil {
		return r
	}
	out := *r
	out.Header = r.Header.Clone()
	for _, name := range drop {
		delete(out.Header, name)
	}
	return &out
}

// ifRange compares If-Range with a field that add_header replaces. known is false if it replaces none that counts. As in nginx what
// ends in a quotation mark is an entity tag.
func (x *exchange) ifRange(value string) (holds, known bool) {
	name := "Last-Modified"
	if strings.HasSuffix(value, `"`) {
		name = "Etag"
	}
	f := x.loc.filters
	if f == nil {
		return false, false
	}
	for i := range f.fields {
		if a := &f.fields[i]; a.name == name {
			is := a.value.eval(x)
			holds, known = is != "" && (is == value && name == "Etag" || name == "Last-Modified" && sameTime(is, value)), true
		}
	}
	return holds, known
}

// sameTime reports whether two texts are the same time.
func sameTime(a, b string) bool {
	x, errA := http.ParseTime(a)
	y, errB := http.ParseTime(b)
	return errA == nil && errB == nil && x.Equal(y)
}
