package front

import (
	"net/http"
	"slices"

	"github.com/tarehq/tare/internal/wire/http1"
)

// addsTrailers reports whether a response with a status gets added trailer fields.
func (f *filters) addsTrailers(w *writer, code int) bool {
	if f.trailers == nil || f.noChunks || !w.x.r.ProtoAtLeast(1, 1) || w.x.r.Method == http.MethodHead ||
		!bodyAllowed(code) {
		return false
	}
	isDefaultStatus := getsAddedFields(code)
	for i := range f.trailers {
		if isDefaultStatus || f.trailers[i].always {
			return true
		}
	}
	return false
}

// announceTrailers makes the server send a trailer section, whose values follow.
func (f *filters) announceTrailers(header http.Header) {
	delete(header, "Content-Length")
	for i := range f.trailers {
		if name := http.TrailerPrefix + f.trailers[i].name; header[name] == nil {
			header[name] = []string{}
		}
	}
}

// addTrailers adds the trailer fields after the body.
func (f *filters) addTrailers(w *writer) {
	header, isDefaultStatus := w.Header(), getsAddedFields(w.status)
	for i := range f.trailers {
		field := &f.trailers[i]
		if !isDefaultStatus && !field.always {
			continue
		}
		if value := w.x.cleanFieldValue(field.name, field.value.eval(w.x)); value != "" {
			name := http.TrailerPrefix + field.name
			header[name] = append(header[name], value)
		}
	}
}

// sentTrailer returns the values of a field in the trailer section, as far as that is known.
func (x *exchange) sentTrailer(name string) []string {
	header := x.w.Header()
	values := header[http.TrailerPrefix+name]
	if http1.HasToken(header["Trailer"], name) {
		values = slices.Concat(header[name], values)
	}
	return values
}
