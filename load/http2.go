package load

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// overHTTP2 is HTTP/2 as a protocol to load. Its grammar is a library's.
type overHTTP2 struct{}

func (overHTTP2) port(secure bool) string { return overHTTP{}.port(secure) }
func (overHTTP2) takesParams() bool       { return false }
func (overHTTP2) takesSeveral() bool      { return true }
func (overHTTP2) announces() bool         { return true }

// blockSize is the size of the number that stands before a rendered header block.
const blockSize = 4

// render appends the length of the header block, the block, and the body: frames need the number
// of their stream. The block uses no dynamic table, so that it is the same on any connection.
func (overHTTP2) render(dst []byte, q *request, _ address, _ bool) []byte {
	start := len(dst)
	out := appender{append(dst, make([]byte, blockSize)...)}
	encoder := hpack.NewEncoder(&out)
	encoder.SetMaxDynamicTableSizeLimit(0)
	for _, f := range q.http2Fields() {
		_ = encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}) // an appender takes all
	}
	binary.BigEndian.PutUint32(out.b[start:], uint32(len(out.b)-start-blockSize))
	return append(out.b, q.body...)
}

// rendered takes apart what render made.
func rendered(b []byte) (block, body []byte) {
	n := blockSize + binary.BigEndian.Uint32(b)
	return b[blockSize:n], b[n:]
}

// http2Fields returns a request's header as HTTP/2 has it (RFC 9113, 8.3.1). What is about the
// connection is left out.
func (q *request) http2Fields() []field {
	authority, scheme := q.host, "http"
	if host, ok := q.get("Host"); ok {
		authority = host
	}
	if q.secure {
		scheme = "https"
	}
	fields := []field{{":method", q.method}, {":scheme", scheme}, {":authority", authority}, {":path", q.target}}
	for _, f := range q.fields {
		if name := strings.ToLower(f.name); !slices.Contains(connectionFields(), name) {
			fields = append(fields, field{name, f.value})
		}
	}
	if q.tellsLength() && !q.has("Content-Length") {
		fields = append(fields, field{"content-length", strconv.Itoa(len(q.body))})
	}
	return fields
}

// connectionFields are those that HTTP/2 has no use for (RFC 9113, 8.2.2).
func connectionFields() []string {
	return []string{"host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
}

// appender is memory that is written to.
type appender struct{ b []byte }

func (a *appender) Write(b []byte) (int, error) {
	a.b = append(a.b, b...)
	return len(b), nil
}
