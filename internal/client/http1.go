package client

import (
	"net/http"

	"github.com/tarehq/tare/internal/wire/http1"
)

// http1Protocol implements protocol for HTTP/1.1.
type http1Protocol struct{}

// New returns a Client that speaks HTTP/1.1 and HTTP/2. It copies the settings.
func New(config *Config) *Client {
	// as in net/http
	const maxHeadBytes = 10 << 20
	c := newClient(config, http1Protocol{}, maxHeadBytes, defaultReadBuffer)
	if c.settings.MaxIdleConnsPerHost == 0 {
		c.pool.limits.maxIdlePerHost = http.DefaultMaxIdleConnsPerHost
	}
	c.configureProtocols()
	return c
}

func (http1Protocol) newCodec() codec { return new(http1Codec) }

// abortMessage returns nil: only the end of the connection abandons a request.
func (http1Protocol) abortMessage() []byte { return nil }

// framePiece implements protocol: a body of unknown length is sent in chunks.
func (http1Protocol) framePiece(x *exchange, m []byte, n int, end bool) []byte {
	b := m[roomBefore : roomBefore+n]
	if x.bodyLength >= 0 {
		return b
	}
	if n > 0 {
		var line [roomBefore]byte
		size := http1.AppendChunkSize(line[:0], n)
		at := roomBefore - len(size)
		copy(m[at:], size)
		b = http1.AppendChunkEnd(m[at : roomBefore+n])
	}
	if !end {
		return b
	}
	return http1.AppendHeadEnd(appendTrailer(http1.AppendLastChunk(b), x.request.Trailer))
}

// appendTrailer writes the trailer fields. Their values may have been set while the body was read.
func appendTrailer(b []byte, trailer http.Header) []byte {
	for name, values := range trailer {
		for _, v := range values {
			if name = http.CanonicalHeaderKey(name); http1.TrailerAllowed(name) {
				b = http1.AppendField(b, name, v)
			}
		}
	}
	return b
}

// http1Codec implements codec for HTTP/1.1.
type http1Codec struct {
	proxyAuth     string // value of Proxy-Authorization, or ""
	requestedGzip bool   // by the Client, not by the caller

	head      http1.Response // its offsets refer to the received bytes
	mode      http1.Mode     // of the response's body
	remaining int64          // of a body with a Content-Length
	chunks    http1.Chunked
}

func (h *http1Codec) reset() {
	h.head.Reset()
	*h = http1Codec{head: h.head}
}

func (h *http1Codec) isClean(x *exchange) bool {
	return h.head.IsPersistent() && h.mode != http1.UntilClose && len(x.scratch.received()) == 0
}
