package client

import (
	"io"
	"net/http"
	"net/textproto"

	"github.com/tarehq/tare/internal/wire/http1"
)

// New returns a Client that speaks HTTP/1.1 and HTTP/2. It copies the settings.
func New(config *Config) *Client {
	// as in net/http
	const maxHeadBytes = 10 << 20
	c := newClient(config, protocol{newCodec: func() codec { return new(http1Codec) }, framePiece: frameChunk},
		maxHeadBytes, defaultReadBuffer)
	if c.settings.MaxIdleConnsPerHost == 0 {
		c.pool.limits.maxIdlePerHost = http.DefaultMaxIdleConnsPerHost
	}
	c.configureProtocols()
	return c
}

// frameChunk is protocol.framePiece for HTTP/1.1: a body of unknown length is sent in chunks.
func frameChunk(x *exchange, m []byte, n int, end bool) []byte {
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

var _ codec = (*http1Codec)(nil)

// http1Codec is the codec of HTTP/1.1.
type http1Codec struct {
	proxyAuth string // value of Proxy-Authorization, or ""

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

// maxTrailerBytes limits a trailer section, and maxFields the number of its field lines.
const maxTrailerBytes = 64 << 10

func (h *http1Codec) readBody(x *slab, p []byte) (n int, err error) {
	switch h.mode {
	case http1.ByLength:
		return h.readLength(&x.exchange, p)
	case http1.ByChunks:
		return h.readChunks(x, p)
	}
	return readUntilClose(&x.exchange, p)
}

func (h *http1Codec) readLength(x *exchange, p []byte) (n int, err error) {
	p = p[:min(int64(len(p)), h.remaining)]
	if n = x.scratch.takeInto(p); n == 0 {
		if n, err = x.receiveInto(p); err != nil {
			return 0, err
		}
	}
	if h.remaining -= int64(n); h.remaining == 0 {
		err = io.EOF
	}
	return n, err
}

// readUntilClose reads a body that ends when the server closes the connection, by close_notify if
// the connection uses TLS.
func readUntilClose(x *exchange, p []byte) (n int, err error) {
	if n = x.scratch.takeInto(p); n > 0 {
		return n, nil
	}
	if n, err = x.receiveInto(p); err != nil && x.connEOF {
		err = io.EOF
	}
	return n, err
}

// readChunks reads a chunked body. If p is large, chunks are received into p and their framing is
// removed in place.
func (h *http1Codec) readChunks(x *slab, p []byte) (n int, err error) {
	s := x.scratch
	// If p is full and the body's end has arrived, io.EOF comes with the last data.
	for err == nil && (n < len(p) || !h.hasInput(s)) {
		var got int
		switch {
		case h.chunks.Done():
			return n, h.readTrailer(x, n == 0)
		case len(s.received()) > 0:
			in := s.received()
			if n < len(p) { // else they have no data
				in = in[:min(len(in), len(p)-n)]
			}
			var used int
			got, used, err = h.decode(x, p[n:], in)
			s.parsed += used
		case n > 0:
			return n, nil
		case len(p) < len(s.in):
			err = x.fill()
		default:
			if got, err = x.receiveInto(p); err == nil {
				in, used := p[:got], 0
				if got, used, err = h.decode(x, p, in); used < len(in) {
					x.putBack(in[used:])
				}
			}
		}
		n += got
	}
	return n, err
}

// decode moves the data of in to p, which may share its memory. It stops at the end of the body.
func (h *http1Codec) decode(x *slab, p, in []byte) (n, used int, err error) {
	for used < len(in) && !h.chunks.Done() {
		data, size, err := h.chunks.Next(in[used:])
		if err != nil {
			return n, used, x.malformed(err)
		}
		used += size
		n += copy(p[n:], data)
	}
	return n, used, nil
}

// putBack returns received bytes to the scratch, which is empty.
func (x *exchange) putBack(rest []byte) {
	s := x.scratch
	if s.in == nil {
		x.client.borrowInput(s)
	}
	if len(rest) > len(s.in) {
		s.in = make([]byte, len(rest))
	}
	s.parsed, s.filled = 0, copy(s.in, rest)
}

// readTrailer reads the trailer section into the response's Trailer, and then returns io.EOF. With
// wait, it waits for the section to arrive.
func (h *http1Codec) readTrailer(x *slab, wait bool) error {
	t := http1.Trailer{IsLenient: true} // the response is complete, as for nginx and net/http
	for {
		in := x.scratch.received()
		complete, err := t.Parse(in, http1.Limits{Bytes: maxTrailerBytes, Fields: maxFields})
		if err != nil {
			return x.malformed(err)
		}
		if complete {
			if !x.isDraining { // otherwise the response belongs to the caller
				x.response.Trailer = t.AddTo(x.response.Trailer, in, textproto.CanonicalMIMEHeaderKey)
			}
			x.scratch.parsed += t.Size
			return io.EOF
		}
		if !wait {
			return nil
		}
		if err := x.fill(); err != nil {
			return err
		}
	}
}

func (h *http1Codec) hasInput(s *scratch) bool {
	if h.mode != http1.ByChunks {
		return len(s.received()) > 0
	}
	return h.chunks.HasData(s.received())
}

func (h *http1Codec) skipBuffered(x *slab) (err error) {
	s := x.scratch
	switch h.mode {
	case http1.ByLength:
		if int64(len(s.received())) >= h.remaining {
			s.parsed += int(h.remaining)
			err = io.EOF
		}
	case http1.ByChunks:
		var used int
		_, used, err = h.decode(x, nil, s.received())
		s.parsed += used
		if err == nil && h.chunks.Done() {
			err = h.readTrailer(x, false)
		}
	}
	return err
}

func (h *http1Codec) mayDrain(x *exchange) bool {
	return x.keepAlive && h.head.IsPersistent() && h.mode != http1.UntilClose && h.remaining <= maxDrain
}
