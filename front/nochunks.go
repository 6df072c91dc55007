package front

import "net/http"

// neededForLength returns how much of the body is needed to decide whether a response without a
// length ends with its connection. The server finds the length of shorter ones.
func neededForLength(w *writer) int64 {
	if isChunked(w) {
		return maxHeldBytes
	}
	return 0
}

// isChunked reports whether the response would be chunked. HTTP/2 and HTTP/1.0 have no chunks. Over
// FastCGI the server ignores the field that closeAfterResponse sets.
func isChunked(w *writer) bool {
	if r := w.x.r; r.Method == http.MethodHead || r.ProtoMajor != 1 || !r.ProtoAtLeast(1, 1) || !bodyAllowed(w.status) {
		return false
	}
	_, known := declaredLength(w.Header())
	return !known
}

// closeAfterResponse makes the server send a response without chunks, and close the connection
// after it. Both net/http and tare's engine interpret the field so, and do not send it.
func closeAfterResponse(w *writer) {
	if isChunked(w) {
		header := w.Header()
		header["Transfer-Encoding"] = []string{"identity"}
		delete(header, "Trailer")
	}
}
