package front

import (
	"net/http"
	"strings"
)

const (
	// maxHeldBytes bounds how much of a response of unknown length is held back. net/http holds
	// back as much to find the length itself.
	maxHeldBytes = 2 << 10
	// sniffLen is the number of bytes that http.DetectContentType uses.
	sniffLen = 512
)

// heldResponse is the stage that holds back the beginning of a response until its length or type is
// known.
type heldResponse struct {
	w      *writer
	chosen bodyFilters
	needed int // bytes until the decision
	body   []byte
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

// Write holds p back, or releases everything.
func (h *heldResponse) Write(p []byte) (int, error) {
	if len(h.body)+len(p) < h.needed {
		h.body = append(h.body, p...)
		return len(p), nil
	}
	beginning := h.body
	if len(beginning) < sniffLen {
		beginning = append(beginning, p[:min(len(p), sniffLen-len(beginning))]...)
	}
	if err := h.end(beginning, unknownLength); err != nil {
		return 0, err
	}
	return h.w.pass(holdStage, p)
}

// Flush releases what was held back.
func (h *heldResponse) Flush() error { return h.end(h.body, unknownLength) }

// Close releases the whole body.
func (h *heldResponse) Close() error { return h.end(h.body, int64(len(h.body))) }

func (h *heldResponse) release() {}

// end sends the head and what was held back. The type comes from the beginning of the body.
func (h *heldResponse) end(beginning []byte, length int64) error {
	w := h.w
	w.stages[holdStage] = nil
	header := w.Header()
	values, typed := header["Content-Type"]
	contentType, encoded := firstValue(values), header.Get("Content-Encoding") != ""
	if !typed && len(beginning) > 0 {
		contentType = http.DetectContentType(beginning)
	}
	h.chosen.start(w, contentType, length)
	if !typed && !encoded && contentType != "" && (w.stages[subStage] != nil || w.stages[additionStage] != nil ||
		w.stages[compressStage] != nil || header["Transfer-Encoding"] != nil) {
		// else the server would detect the type of changed bytes, or none
		header["Content-Type"] = []string{contentType}
	}
	w.ResponseWriter.WriteHeader(w.status)
	if len(h.body) == 0 {
		return nil
	}
	_, err := w.pass(holdStage, h.body)
	return err
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
