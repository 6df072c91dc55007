package load

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare/internal/wire/http2"
)

type http2Protocol struct{}

func (http2Protocol) defaultPort(secure bool) string { return httpProtocol{}.defaultPort(secure) }

const blockLengthSize = 4 // size of the length that precedes a rendered header block

// render appends the length of the header block, the block, and the body. Frames are added when the
// stream ID is known. The block uses no dynamic table, so it is valid on any connection.
func (http2Protocol) render(dst []byte, q *request, _ address, _ bool) []byte {
	start := len(dst)
	out := bytes.NewBuffer(append(dst, make([]byte, blockLengthSize)...))
	encoder := hpack.NewEncoder(out)
	encoder.SetMaxDynamicTableSizeLimit(0)
	for _, f := range q.http2Fields() {
		_ = encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}) // a Buffer never fails
	}
	b := out.Bytes()
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-blockLengthSize))
	return append(b, q.body...)
}

func splitRendered(b []byte) (block, body []byte) {
	n := blockLengthSize + binary.BigEndian.Uint32(b)
	return b[blockLengthSize:n], b[n:]
}

// http2Fields returns the request's fields in HTTP/2's form (RFC 9113, 8.3.1), without
// connection-specific ones.
func (q *request) http2Fields() []field {
	authority, scheme := q.url.host, "http"
	if host, ok := q.get("Host"); ok {
		authority = host
	}
	if q.url.secure {
		scheme = "https"
	}
	fields := []field{{":method", q.method}, {":scheme", scheme}, {":authority", authority}, {":path", q.url.target}}
	for _, f := range q.fields {
		if name := strings.ToLower(f.name); name != "host" && !http2.ConcernsConnection(name) {
			fields = append(fields, field{name, f.value})
		}
	}
	if q.sendsLength() && !q.has("Content-Length") {
		fields = append(fields, field{"content-length", strconv.Itoa(len(q.body))})
	}
	return fields
}
