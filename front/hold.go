package front

import (
	"net/http"
	"strings"
)

const (
	// heldAnswer is how much of an answer without a length is held back at most until it is known how long it is. It is what
	// net/http holds back to find the length itself.
	maxHeldBytes = 2 << 10
	// sniffed is how many bytes http.DetectContentType looks at.
	sniffLen = 512
)

// hold is the beginning of an answer, until its length or its type is known.
type heldResponse struct {
	filters *filters
	mayGzip bool // gzip is concerned
	needed  int  // bytes
	body    []byte
}

// changes reports whether the filters may do something to bodies, or to how they are sent.
func (f *filters) changesBody() bool { return f.gzip != nil || f.sub != nil || f.noChunks }

// change begins to change an answer whose header has been set, as far as it is to be. It reports false if that depends on the
// beginning of the body: the head then waits.
func (f *filters) startBodyFilters(w *writer) bool {
	h := heldResponse{filters: f, mayGzip: f.gzip != nil && f.gzip.mayCompress(w)}
	var need int64
	if h.mayGzip {
		need = f.gzip.neededBytes(w.Header())
	}
	if f.sub != nil {
		need = max(need, f.sub.neededBytes(w))
	}
	if f.noChunks {
		need = max(need, neededForLength(w))
	}
	if need > 0 {
		h.needed = int(need)
		w.held = new(h)
		return false
	}
	h.startFilters(w, firstValue(w.Header()["Content-Type"]), false)
	return true
}

// start begins what changes an answer of a type. whole says that all of its body is held back.
func (h *heldResponse) startFilters(w *writer, contentType string, complete bool) {
	if h.filters.sub != nil {
		h.filters.sub.start(w, contentType)
	}
	if h.mayGzip && (!complete || int64(len(h.body)) >= h.filters.gzip.minLength) {
		h.filters.gzip.start(w, contentType)
	}
	if h.filters.noChunks && (!complete || w.replacer != nil || w.gzip != nil) {
		closeAfterResponse(w)
	}
}

// write holds more back, or lets all go.
func (h *heldResponse) write(w *writer, p []byte) (int, error) {
	if len(h.body)+len(p) < h.needed {
		h.body = append(h.body, p...)
		return len(p), nil
	}
	beginning := h.body
	if len(beginning) < sniffLen {
		beginning = append(beginning, p[:min(len(p), sniffLen-len(beginning))]...)
	}
	if err := h.release(w, beginning, false); err != nil {
		return 0, err
	}
	return w.Write(p)
}

// release sends the head and what was held back. The type is told by the body's beginning; whole says that all of it was held back.
func (h *heldResponse) release(w *writer, beginning []byte, complete bool) error {
	w.held = nil
	header := w.Header()
	values, typed := header["Content-Type"]
	contentType, encoded := firstValue(values), header.Get("Content-Encoding") != ""
	if !typed && len(beginning) > 0 {
		contentType = http.DetectContentType(beginning)
	}
	h.startFilters(w, contentType, complete)
	if !typed && !encoded && contentType != "" && (w.replacer != nil || w.gzip != nil || header["Transfer-Encoding"] != nil) {
		header["Content-Type"] = []string{contentType} // the server would look at something else, or not at all
	}
	w.ResponseWriter.WriteHeader(w.status)
	if len(h.body) == 0 {
		return nil
	}
	_, err := w.Write(h.body)
	return err
}

func firstValue(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// declaredLength is what a header says of it.
func declaredLength(header http.Header) (int64, bool) {
	value := header.Get("Content-Length")
	if value == "" {
		return 0, false
	}
	n, ok := parseDigits(value)
	return n, ok
}

// weaken makes the tag of an answer weak (RFC 9110, 8.8.1), because what is sent has other bytes.
func weakenEtag(header http.Header) {
	tag := header.Get("Etag")
	switch {
	case tag == "" || strings.HasPrefix(tag, "W/"):
	case strings.HasPrefix(tag, `"`):
		header["Etag"] = []string{"W/" + tag}
	default:
		delete(header, "Etag") // it is none
	}
}

// bodyTypes are the media types of bodies that something is done to.
type bodyTypes struct {
	any   bool
	names map[string]bool // in lower case
}

// newBodyTypes makes them of text/html and others, of which "*" is any.
func newBodyTypes(others []string) bodyTypes {
	t := bodyTypes{names: map[string]bool{"text/html": true}}
	for _, name := range others {
		t.any = t.any || name == "*"
		t.names[strings.ToLower(name)] = true
	}
	return t
}

// have reports whether the type of a Content-Type is one of them.
func (t *bodyTypes) contains(contentType string) bool {
	if t.any {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	return t.names[strings.ToLower(strings.TrimSpace(media))]
}
