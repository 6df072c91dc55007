package core

import (
	"net/http"

	"github.com/tarehq/tare/front/internal/message"
)

// noChunks is a BodyFilter without a stage: a response without a length ends with its connection.
type noChunks struct{}

// MayApply implements BodyFilter. The server finds the length of shorter bodies.
func (noChunks) MayApply(w *Writer) (need int64, ok bool) {
	if isChunked(w) {
		return MaxHeldBytes, true
	}
	return 0, true
}

// Start implements BodyFilter. It makes the server send a response without chunks, and close the
// connection after it. Both net/http and tare's engine interpret the field so, and do not send it.
func (noChunks) Start(w *Writer, _ string, length int64) {
	if (length == UnknownLength || w.changesBody()) && isChunked(w) {
		header := w.Header()
		header["Transfer-Encoding"] = []string{"identity"}
		delete(header, "Trailer")
	}
}

// isChunked reports whether the response would be chunked. HTTP/2 and HTTP/1.0 have no chunks. Over
// FastCGI the server ignores the field that start sets.
func isChunked(w *Writer) bool {
	if r := w.X.Request; r.Method == http.MethodHead || r.ProtoMajor != 1 || !r.ProtoAtLeast(1, 1) ||
		!message.BodyAllowed(w.Status) {
		return false
	}
	_, known := message.DeclaredLength(w.Header())
	return !known
}
