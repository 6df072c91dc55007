package client

import (
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarehq/tare/internal/roundtrip"
	"github.com/tarehq/tare/internal/wire/http1"
)

const (
	// maxTrailerBytes and maxTrailerFields limit a trailer section.
	maxTrailerBytes  = 64 << 10
	maxTrailerFields = 100
)

// responseBody is the body of a response. Read receives it from the connection.
type responseBody struct {
	x       *slab
	closed  atomic.Bool
	reading sync.Mutex // guards the fields below, and the exchange's scratch

	mode      http1.Mode
	remaining int64 // of a body with a Content-Length
	chunks    http1.Chunked
	err       error // sticky; io.EOF after the end of the body
}

func newResponseBody(x *slab, f http1.Framing) *responseBody {
	return &responseBody{x: x, mode: f.Mode, remaining: f.Length}
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (n int, err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	switch {
	case b.closed.Load():
		return 0, roundtrip.ErrClosedBody
	case b.err != nil:
		return 0, b.err
	case len(p) == 0:
		return 0, nil
	}
	switch b.mode {
	case http1.ByLength:
		n, err = b.readLength(p)
	case http1.ByChunks:
		n, err = b.readChunks(p)
	default:
		n, err = b.readUntilClose(p)
	}
	if err != nil {
		err = b.end(err)
	}
	return n, err
}

// Close closes the connection unless the whole body has arrived.
func (b *responseBody) Close() error {
	b.closed.Store(true)
	if b.reading.TryLock() {
		if b.err == nil {
			b.consumeBuffered()
		}
		if b.err == nil {
			_ = b.end(roundtrip.ErrClosedBody)
		}
		b.reading.Unlock()
	}
	b.x.abandon(roundtrip.ErrClosedBody) // ends a Read that waits
	return nil
}

// end ends the body and the exchange, and returns err.
func (b *responseBody) end(err error) error {
	x := b.x
	b.err = err
	if err == io.EOF { //nolint:errorlint // the end of the body, never wrapped
		x.finish(x.scratch.head.Persistent && b.mode != http1.UntilClose && x.parsed == x.filled)
	} else {
		x.abandon(err)
	}
	x.release()
	return err
}

func (b *responseBody) buffered() []byte { return b.x.scratch.in[b.x.parsed:b.x.filled] }

// receive reads into p, or into the scratch if p is small.
func (b *responseBody) receive(p []byte) (int, error) {
	x := b.x
	if len(p) < len(x.scratch.in) {
		if err := x.fill(); err != nil {
			return 0, err
		}
		n := copy(p, b.buffered())
		x.parsed += n
		return n, nil
	}
	n, err := x.conn.Read(p)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, x.readError(err)
}

func (b *responseBody) readLength(p []byte) (n int, err error) {
	if n = copy(p[:min(int64(len(p)), b.remaining)], b.buffered()); n > 0 {
		b.x.parsed += n
	} else if n, err = b.receive(p[:min(int64(len(p)), b.remaining)]); err != nil {
		return 0, err
	}
	if b.remaining -= int64(n); b.remaining == 0 {
		err = io.EOF
	}
	return n, err
}

// readUntilClose reads a body that ends when the server closes the connection, by close_notify if
// the connection uses TLS.
func (b *responseBody) readUntilClose(p []byte) (n int, err error) {
	if n = copy(p, b.buffered()); n > 0 {
		b.x.parsed += n
		return n, nil
	}
	if n, err = b.receive(p); err != nil && b.x.connEOF {
		err = io.EOF
	}
	return n, err
}

// readChunks reads a chunked body. If p is large, chunks are received into p and their framing is
// removed in place.
func (b *responseBody) readChunks(p []byte) (n int, err error) {
	for n == 0 && err == nil {
		switch {
		case len(b.buffered()) > 0:
			n, err = b.decode(p, true)
		case b.chunks.Done():
			err = b.readTrailer(true)
		case len(p) < len(b.x.scratch.in):
			err = b.x.fill()
		default:
			var got int
			if got, err = b.receive(p); err == nil {
				n, err = b.decodeInPlace(p[:got])
			}
		}
	}
	// consume the end of the body if it has arrived
	for before := 0; err == nil && len(b.buffered()) != before && len(b.buffered()) > 0 && n < len(p); {
		before = len(b.buffered())
		var more int
		more, err = b.decode(p[n:], false)
		n += more
	}
	return n, err
}

// decode decodes bytes of the scratch: at most one piece of data. At the end of the body it returns
// io.EOF.
func (b *responseBody) decode(p []byte, wait bool) (int, error) {
	x := b.x
	if b.chunks.Done() {
		return 0, b.readTrailer(wait)
	}
	in := b.buffered()
	data, n, err := b.chunks.Next(in[:min(len(in), len(p))])
	x.parsed += n
	if err != nil {
		return 0, b.malformed(err)
	}
	return copy(p, data), nil
}

// decodeInPlace decodes bytes that were received into p. Bytes after the last chunk are put back.
func (b *responseBody) decodeInPlace(p []byte) (n int, err error) {
	for from := 0; from < len(p); {
		if b.chunks.Done() {
			b.putBack(p[from:])
			return n, nil
		}
		data, used, err := b.chunks.Next(p[from:])
		if err != nil {
			return n, b.malformed(err)
		}
		from += used
		n += copy(p[n:], data)
	}
	return n, nil
}

// putBack returns received bytes to the scratch, which is empty.
func (b *responseBody) putBack(rest []byte) {
	x := b.x
	if len(rest) > len(x.scratch.in) {
		x.scratch.in = make([]byte, len(rest))
	}
	x.parsed, x.filled = 0, copy(x.scratch.in, rest)
}

// readTrailer reads the trailer section into the response's Trailer, and then returns io.EOF. With
// wait, it waits for the section to arrive.
func (b *responseBody) readTrailer(wait bool) error {
	x := b.x
	var t http1.Trailer
	for {
		in := b.buffered()
		complete, err := t.Parse(in, http1.Limits{Bytes: maxTrailerBytes, Fields: maxTrailerFields})
		if err != nil {
			return b.malformed(err)
		}
		if complete {
			section := http1.TextOf(in[:t.Size])
			x.parsed += t.Size
			for _, f := range t.Fields {
				if x.response.Trailer == nil {
					x.response.Trailer = make(http.Header, len(t.Fields))
				}
				x.response.Trailer.Add(section.Of(f.Name), section.Of(f.Value))
			}
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

func (b *responseBody) malformed(err error) error {
	return b.x.newError(Server, Malformed, "reading the response's body from", err)
}

// consumeBuffered skips the part of the body that has arrived. The end of the body may be in it.
func (b *responseBody) consumeBuffered() {
	var err error
	switch b.mode {
	case http1.ByLength:
		if int64(len(b.buffered())) >= b.remaining {
			b.x.parsed += int(b.remaining)
			err = io.EOF
		}
	case http1.ByChunks:
		for before := -1; err == nil && len(b.buffered()) > 0 && len(b.buffered()) != before; {
			before = len(b.buffered())
			if b.chunks.Done() {
				err = b.readTrailer(false)
				continue
			}
			var n int
			_, n, err = b.chunks.Next(b.buffered())
			b.x.parsed += n
		}
	}
	if err != nil {
		_ = b.end(err)
	}
}

// announceTrailer moves the names in the Trailer field to Response.Trailer, as keys without values.
func (x *slab) announceTrailer() error {
	r := &x.response
	for _, list := range r.Header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			switch {
			case name == "":
				continue
			case !http1.TrailerAllowed(name), len(r.Trailer) >= maxTrailerFields:
				return x.newError(Server, Malformed, "reading the response from",
					errors.New("invalid or too many names in the Trailer field"))
			case r.Trailer == nil:
				r.Trailer = make(http.Header)
			}
			r.Trailer[name] = nil
		}
	}
	delete(r.Header, "Trailer")
	return nil
}
