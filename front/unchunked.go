package front

import "net/http"

// needsToEnd is how much of the body of an answer without a length has to be there to tell whether it ends with its connection: the
// server finds the length of those that are shorter.
func neededForLength(w *writer) int64 {
	if isChunked(w) {
		return maxHeldBytes
	}
	return 0
}

// endsWithConnection reports whether an answer would go in chunks. Of other versions of HTTP none does, nor over FastCGI, where
// the server lets the field go.
func isChunked(w *writer) bool {
	if r := w.x.r; r.Method == http.MethodHead || r.ProtoMajor != 1 || !r.ProtoAtLeast(1, 1) || !bodyAllowed(w.status) {
		return false
	}
	_, known := declaredLength(w.Header())
	return !known
}

// endWithConnection has the server send an answer that would go in chunks as it is, and close the connection behind it. That is what
// both net/http and tare's engine take the field for, which nobody sees.
func closeAfterResponse(w *writer) {
	if isChunked(w) {
		header := w.Header()
		header["Transfer-Encoding"] = []string{"identity"}
		delete(header, "Trailer")
	}
}
