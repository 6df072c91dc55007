package load

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// overHTTP2 is HTTP/2 as a protocol to load. Its grammar is a library's.
type http2Protocol struct{}

func (http2Protocol) defaultPort(secure bool) string { return httpProtocol{}.defaultPort(secure) }
func (http2Protocol) acceptsParams() bool            { return false }
func (http2Protocol) allowsPipelining() bool         { return true }
func (http2Protocol) announcesClose() bool           { return true }

// blockSize is the size of the number that stands before a rendered header block.
const blockLengthSize = 4

// render appends the length of the header block, the block, and the body: frames need the number
// of their stream. The block uses no dynamic table, so that it is the same on any connection.
func (http2Protocol) render(dst []byte, q *request, _ address, _ bool) []byte {
	start := len(dst)
	out := byteAppender{append(dst, make([]byte, blockLengthSize)...)}
	encoder := hpack.NewEncoder(&out)
	encoder.SetMaxDynamicTableSizeLimit(0)
	for _, f := range q.http2Fields() {
		_ = encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}) // an appender takes all
	}
	binary.BigEndian.PutUint32(out.b[start:], uint32(len(out.b)-start-blockLengthSize))
	return append(out.b, q.body...)
}

// rendered takes apart what render made.
func splitRendered(b []byte) (block, body []byte) {
	n := blockLengthSize + binary.BigEndian.Uint32(b)
	return b[blockLengthSize:n], b[n:]
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
	if q.sendsLength() && !q.has("Content-Length") {
		fields = append(fields, field{"content-length", strconv.Itoa(len(q.body))})
	}
	return fields
}

// connectionFields are those that HTTP/2 has no use for (RFC 9113, 8.2.2).
func connectionFields() []string {
	return []string{"host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
}

// appender is memory that is written to.
type byteAppender struct{ b []byte }

func (a *byteAppender) Write(b []byte) (int, error) {
	a.b = append(a.b, b...)
	return len(b), nil
}
