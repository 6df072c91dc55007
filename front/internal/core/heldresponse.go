package core

import (
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/internal/message"
)

const (
	// MaxHeldBytes bounds how much of a response of unknown length is held back. net/http holds
	// back as much to find the length itself.
	MaxHeldBytes = 2 << 10
	// SniffLen is the number of bytes that http.DetectContentType uses.
	SniffLen = 512
)

// heldResponse is the stage that holds back the beginning of a response until its length or type is
// known.
type heldResponse struct {
	w      *Writer
	chosen bodyFilters
	needed int // bytes until the decision
	body   []byte
}

// NeededForType returns how much of the body is needed to know its type.
func NeededForType(header http.Header) int64 {
	if _, typed := header["Content-Type"]; typed {
		return 0
	}
	if length, known := message.DeclaredLength(header); known {
		return min(SniffLen, length)
	}
	return SniffLen
}

// Write holds p back, or releases everything.
func (h *heldResponse) Write(p []byte) (int, error) {
	if len(h.body)+len(p) < h.needed {
		h.body = append(h.body, p...)
		return len(p), nil
	}
	beginning := h.body
	if len(beginning) < SniffLen {
		beginning = append(beginning, p[:min(len(p), SniffLen-len(beginning))]...)
	}
	if err := h.end(beginning, UnknownLength); err != nil {
		return 0, err
	}
	return h.w.Pass(holdStage, p)
}

// Flush releases what was held back.
func (h *heldResponse) Flush() error { return h.end(h.body, UnknownLength) }

// Close releases the whole body.
func (h *heldResponse) Close() error { return h.end(h.body, int64(len(h.body))) }

func (h *heldResponse) Release() {}

// end sends the head and what was held back. The type comes from the beginning of the body.
func (h *heldResponse) end(beginning []byte, length int64) error {
	w := h.w
	w.Stages[holdStage] = nil
	header := w.Header()
	values, typed := header["Content-Type"]
	contentType, encoded := message.FirstValue(values), header.Get("Content-Encoding") != ""
	if !typed && len(beginning) > 0 {
		contentType = http.DetectContentType(beginning)
	}
	h.chosen.start(w, contentType, length)
	if !typed && !encoded && contentType != "" && (w.Stages[SubStage] != nil || w.Stages[AdditionStage] != nil ||
		w.Stages[CompressStage] != nil || header["Transfer-Encoding"] != nil) {
		// else the server would detect the type of changed bytes, or none
		header["Content-Type"] = []string{contentType}
	}
	w.ResponseWriter.WriteHeader(w.Status)
	if len(h.body) == 0 {
		return nil
	}
	_, err := w.Pass(holdStage, h.body)
	return err
}

// BodyTypes is a set of media types that a filter applies to.
type BodyTypes struct {
	any   bool
	names map[string]bool // in lower case
}

// NewBodyTypes returns the set of text/html and others; "*" is any type.
func NewBodyTypes(others []string) BodyTypes {
	t := BodyTypes{names: map[string]bool{"text/html": true}}
	for _, name := range others {
		t.any = t.any || name == "*"
		t.names[strings.ToLower(name)] = true
	}
	return t
}

// Contains reports whether the type of a Content-Type is in the set.
func (t *BodyTypes) Contains(contentType string) bool {
	if t.any {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	return t.names[strings.ToLower(strings.TrimSpace(media))]
}
