package core

import (
	"net/http"
	"slices"

	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/wire/http1"
)

// addsTrailers reports whether a response with a status gets added trailer fields.
func (f *filters) addsTrailers(w *Writer, code int) bool {
	if f.trailers == nil || f.noChunks || !w.X.Request.ProtoAtLeast(1, 1) || w.X.Request.Method == http.MethodHead ||
		!message.BodyAllowed(code) {
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

func (f *filters) addTrailers(w *Writer) {
	header, isDefaultStatus := w.Header(), getsAddedFields(w.Status)
	for i := range f.trailers {
		field := &f.trailers[i]
		if !isDefaultStatus && !field.always {
			continue
		}
		if value := w.X.CleanFieldValue(field.name, field.value.Eval(w.X)); value != "" {
			name := http.TrailerPrefix + field.name
			header[name] = append(header[name], value)
		}
	}
}

// sentTrailer returns the values of a field in the trailer section, as far as that is known.
func (x *Exchange) sentTrailer(name string) []string {
	header := x.Response.Header()
	values := header[http.TrailerPrefix+name]
	if http1.HasToken(header["Trailer"], name) {
		values = slices.Concat(header[name], values)
	}
	return values
}
