package front

import (
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/internal/grammar"
)

const (
	// maxHeldBytes bounds how much of a response of unknown length is held back. net/http holds
	// back as much to find the length itself.
	maxHeldBytes = 2 << 10
	// sniffLen is the number of bytes that http.DetectContentType uses.
	sniffLen = 512
)

// heldResponse holds back the beginning of a response until its length or type is known.
type heldResponse struct {
	filters     *filters
	mayCompress [maxCompressions]bool // by the index in filters.compressions
	needed      int                   // bytes until the decision
	body        []byte
}

// changesBody reports whether the filters may change bodies or their framing.
func (f *filters) changesBody() bool {
	return f.compressions != nil || f.gunzip != nil || f.sub != nil || f.recoding != nil || f.addition != nil ||
		f.noChunks
}

// startBodyFilters starts the filters of a response whose header is complete. It returns false if
// they depend on the beginning of the body: the head is then held back.
func (f *filters) startBodyFilters(w *writer) bool {
	if f.gunzip != nil {
		f.gunzip.startGunzip(w)
	}
	if f.recoding != nil {
		f.recoding.start(w)
	}
	h := heldResponse{filters: f}
	var need int64
	for i, c := range f.compressions {
		if c.mayCompress(w) {
			h.mayCompress[i] = true
			need = max(need, c.neededBytes(w.Header()))
		}
	}
	if f.sub != nil {
		need = max(need, f.sub.neededBytes(w))
	}
	if f.addition != nil {
		need = max(need, f.addition.neededBytes(w))
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

// startAddedFilters is startBodyFilters for a body that is added to another response. As in nginx
// only the text is changed.
func (f *filters) startAddedFilters(w *writer) bool {
	if to, ok := w.ResponseWriter.(*addedWriter); ok && f.recoding != nil {
		f.recoding.startAdded(w, to.to)
	}
	if f.sub == nil {
		return true
	}
	only := filters{sub: f.sub}
	return only.startBodyFilters(w)
}

// neededForType returns how much of the body is needed to know its type.
func neededForType(header http.Header) int64 {
	if _, typed := header["Content-Type"]; typed {
		return 0
	}
	if length, known := declaredLength(header); known {
		return min(sniffLen, length)
	}
	return sniffLen
}

// startFilters starts the filters for a content type. complete reports that
// the whole body is held back.
func (h *heldResponse) startFilters(w *writer, contentType string, complete bool) {
	if h.filters.sub != nil {
		h.filters.sub.start(w, contentType)
	}
	if h.filters.addition != nil {
		h.filters.addition.start(w, contentType)
	}
	for i, c := range h.filters.compressions {
		if h.mayCompress[i] && w.compress == nil && (!complete || int64(len(h.body)) >= c.minLength) {
			c.start(w, contentType)
		}
	}
	if h.filters.noChunks && (!complete || w.changesBody()) {
		closeAfterResponse(w)
	}
}

// write holds p back, or releases everything.
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
	return w.filter(p)
}

// release sends the head and what was held back. The type comes from the beginning of the body.
// complete: the whole body was held back.
func (h *heldResponse) release(w *writer, beginning []byte, complete bool) error {
	w.held = nil
	header := w.Header()
	values, typed := header["Content-Type"]
	contentType, encoded := firstValue(values), header.Get("Content-Encoding") != ""
	if !typed && len(beginning) > 0 {
		contentType = http.DetectContentType(beginning)
	}
	h.startFilters(w, contentType, complete)
	if !typed && !encoded && contentType != "" &&
		(w.replacer != nil || w.added != nil || w.compress != nil || header["Transfer-Encoding"] != nil) {
		// else the server would detect the type of changed bytes, or none
		header["Content-Type"] = []string{contentType}
	}
	w.ResponseWriter.WriteHeader(w.status)
	if len(h.body) == 0 {
		return nil
	}
	_, err := w.filter(h.body)
	return err
}

func firstValue(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// declaredLength returns the value of Content-Length.
func declaredLength(header http.Header) (int64, bool) {
	value := header.Get("Content-Length")
	if value == "" {
		return 0, false
	}
	n, err := grammar.ParseNumber(value)
	return n, err == nil
}

// weakenEtag makes Etag weak (RFC 9110, 8.8.1), because the response has other bytes.
func weakenEtag(header http.Header) {
	tag := header.Get("Etag")
	switch {
	case tag == "" || strings.HasPrefix(tag, "W/"):
	case strings.HasPrefix(tag, `"`):
		header["Etag"] = []string{"W/" + tag}
	default:
		delete(header, "Etag") // it is invalid
	}
}

// bodyTypes is a set of media types that a filter applies to.
type bodyTypes struct {
	any   bool
	names map[string]bool // in lower case
}

// newBodyTypes returns the set of text/html and others; "*" is any type.
func newBodyTypes(others []string) bodyTypes {
	t := bodyTypes{names: map[string]bool{"text/html": true}}
	for _, name := range others {
		t.any = t.any || name == "*"
		t.names[strings.ToLower(name)] = true
	}
	return t
}

// contains reports whether the type of a Content-Type is in the set.
func (t *bodyTypes) contains(contentType string) bool {
	if t.any {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	return t.names[strings.ToLower(strings.TrimSpace(media))]
}
