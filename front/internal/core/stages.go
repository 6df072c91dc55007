package core

import (
	"io"
	"net/http"
	"slices"

	"github.com/tarehq/tare/front/internal/mediatype"
	"github.com/tarehq/tare/front/internal/message"
)

// A body passes these stages, in this order.
const (
	GunzipStage = iota
	holdStage   // until the filters of the type are known
	SubStage
	AdditionStage
	CompressStage
	stageCount
)

// stage changes a response's body, and passes it to the stages that follow.
type stage interface {
	io.Writer
	Flush() error // passes on what can be
	Close() error // passes on the rest, at the end of the body
	Release()     // also after a panic
}

// PlainStage has the methods of a stage that neither flushes nor releases anything.
type PlainStage struct{}

func (PlainStage) Flush() error { return nil }
func (PlainStage) Release()     {}

// Pass passes a part of the body to the stages from at on, and to the client.
func (w *Writer) Pass(at int, p []byte) (int, error) {
	for _, s := range w.Stages[at:] {
		if s != nil {
			return s.Write(p)
		}
	}
	return w.SendBody(p)
}

// changesBody reports whether the body is changed, or may be.
func (w *Writer) changesBody() bool { return w.Stages != [stageCount]stage{} }

// BodyFilter is what a location does to bodies of some types.
type BodyFilter interface {
	// MayApply reports whether the filter may apply to a response, by its head, and how much of the
	// body Start needs.
	MayApply(w *Writer) (need int64, ok bool)
	// Start changes the head of a response of a type, and adds a stage. The length is UnknownLength
	// unless the whole body is held back.
	Start(w *Writer, contentType string, length int64)
}

// UnknownLength is that of a body whose end is not known.
const UnknownLength = -1

// EditsBody reports whether responses of some type are edited, so that their length changes.
func (r *Rules) EditsBody() bool { return r.edited != nil }

// edits reports whether responses of a type are edited.
func (r *Rules) edits(contentType string) bool {
	return slices.ContainsFunc(r.edited, func(s *mediatype.Set) bool { return s.Contains(contentType) })
}

// startByType starts those of some filters that apply to a response whose header is complete. If
// that depends on the beginning of the body, it holds the head back and returns false.
func startByType(w *Writer, all []BodyFilter) bool {
	var chosen []BodyFilter
	most := int64(0)
	for _, f := range all {
		if need, ok := f.MayApply(w); ok {
			chosen = append(chosen, f)
			most = max(most, need)
		}
	}
	if most > 0 {
		w.Stages[holdStage] = &heldResponse{w: w, chosen: chosen, needed: int(most)}
		return false
	}
	contentType := message.FirstValue(w.Header()["Content-Type"])
	for _, f := range chosen {
		f.Start(w, contentType, UnknownLength)
	}
	return true
}

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
	chosen []BodyFilter
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

// Close releases the whole body. A response to HEAD has none here, so its length is unknown.
func (h *heldResponse) Close() error {
	length := int64(len(h.body))
	if length == 0 && h.w.X.Method == http.MethodHead {
		length = UnknownLength
	}
	return h.end(h.body, length)
}

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
	for _, f := range h.chosen {
		f.Start(w, contentType, length)
	}
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
