package message

import (
	"maps"
	"net/http"
	"slices"
	"unsafe"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Head is a header as HTTP/1 sends it. Whoever sends the same header often makes its head once, so
// that the server need not copy and sort the fields of a map. The zero value is none.
type Head struct {
	Text   []byte
	Fields []http1.Field // offsets into Text
}

// NewHead returns the head of a header; the zero value if HTTP/1 could not send the header as it is.
func NewHead(header http.Header) Head {
	text := http1.AppendStatusLine(nil, 1, http.StatusOK, "OK")
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			text = http1.AppendField(text, name, value)
		}
	}
	text = slices.Clip(http1.AppendHeadEnd(text))
	var r http1.Response
	if complete, err := r.Parse(text, http1.Limits{Bytes: len(text), Fields: len(text)}); !complete || err != nil {
		return Head{}
	}
	return Head{text, slices.Clone(r.Fields)}
}

// Size returns the bytes of memory that the head uses.
func (h *Head) Size() int64 {
	return int64(cap(h.Text) + int(unsafe.Sizeof(http1.Field{}))*cap(h.Fields))
}
