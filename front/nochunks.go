package front

import "net/http"

// noChunks is a bodyFilter without a stage: a response without a length ends with its connection.
type noChunks struct{}

// mayApply implements bodyFilter. The server finds the length of shorter bodies.
func (noChunks) mayApply(w *writer) (need int64, ok bool) {
	if isChunked(w) {
		return maxHeldBytes, true
	}
	return 0, true
}

// start implements bodyFilter. It makes the server send a response without chunks, and close the
// connection after it. Both net/http and tare's engine interpret the field so, and do not send it.
func (noChunks) start(w *writer, _ string, length int64) {
	if (length == unknownLength || w.changesBody()) && isChunked(w) {
		header := w.Header()
		header["Transfer-Encoding"] = []string{"identity"}
		delete(header, "Trailer")
	}
}

// isChunked reports whether the response would be chunked. HTTP/2 and HTTP/1.0 have no chunks. Over
// FastCGI the server ignores the field that start sets.
func isChunked(w *writer) bool {
	if r := w.x.r; r.Method == http.MethodHead || r.ProtoMajor != 1 || !r.ProtoAtLeast(1, 1) || !bodyAllowed(w.status) {
		return false
	}
	_, known := declaredLength(w.Header())
	return !known
}
