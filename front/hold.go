package front

import (
	"net/http"
	"strings"
)

const (
	// heldAnswer is how much of an answer without a length is held back at most until it is known how long it is. It is what
	// net/http holds back to find the length itself.
	heldAnswer = 2 << 10
	// sniffed is how many bytes http.DetectContentType looks at.
	sniffed = 512
)

// hold is the beginning of an answer, until its length or its type is known.
type hold struct {
	filters *filters
	zips    bool // gzip is concerned
	need    int  // bytes
	held    []byte
}

// changes reports whether the filters may do something to bodies, or to how they are sent.
func (f *filters) changes() bool { return f.gzip != nil || f.sub != nil || f.unchunked }

// change begins to change an answer whose header has been set, as far as it is to be. It reports false if that depends on the
// beginning of the body: the head then waits.
func (f *filters) change(w *writer) bool {
	h := hold{filters: f, zips: f.gzip != nil && f.gzip.concerns(w)}
	var need int64
	if h.zips {
		need = f.gzip.needs(w.Header())
	}
	if f.sub != nil {
		need = max(need, f.sub.needs(w))
	}
	if f.unchunked {
		need = max(need, needsToEnd(w))
	}
	if need > 0 {
		h.need = int(need)
		w.hold = new(h)
		return false
	}
	h.start(w, first(w.Header()["Content-Type"]), false)
	return true
}

// start begins what changes an answer of a type. whole says that all of its body is held back.
func (h *hold) start(w *writer, contentType string, whole bool) {
	if h.filters.sub != nil {
		h.filters.sub.begin(w, contentType)
	}
	if h.zips && (!whole || int64(len(h.held)) >= h.filters.gzip.minLength) {
		h.filters.gzip.begin(w, contentType)
	}
	if h.filters.unchunked && (!whole || w.sub != nil || w.zip != nil) {
		endWithConnection(w)
	}
}

// write holds more back, or lets all go.
func (h *hold) write(w *writer, p []byte) (int, error) {
	if len(h.held)+len(p) < h.need {
		h.held = append(h.held, p...)
		return len(p), nil
	}
	beginning := h.held
	if len(beginning) < sniffed {
		beginning = append(beginning, p[:min(len(p), sniffed-len(beginning))]...)
	}
	if err := h.release(w, beginning, false); err != nil {
		return 0, err
	}
	return w.Write(p)
}

// release sends the head and what was held back. The type is told by the body's beginning; whole says that all of it was held back.
func (h *hold) release(w *writer, beginning []byte, whole bool) error {
	w.hold = nil
	header := w.Header()
	values, typed := header["Content-Type"]
	contentType, encoded := first(values), header.Get("Content-Encoding") != ""
	if !typed && len(beginning) > 0 {
		contentType = http.DetectContentType(beginning)
	}
	h.start(w, contentType, whole)
	if !typed && !encoded && contentType != "" && (w.sub != nil || w.zip != nil || header["Transfer-Encoding"] != nil) {
		header["Content-Type"] = []string{contentType} // the server would look at something else, or not at all
	}
	w.ResponseWriter.WriteHeader(w.status)
	if len(h.held) == 0 {
		return nil
	}
	_, err := w.Write(h.held)
	return err
}

func first(values []string) string {
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
func weaken(header http.Header) {
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
func (t *bodyTypes) have(contentType string) bool {
	if t.any {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	return t.names[strings.ToLower(strings.TrimSpace(media))]
}
