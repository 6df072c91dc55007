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
	// maxTrailerBytes and maxTrailerFields bound a trailer section.
	maxTrailerBytes  = 64 << 10
	maxTrailerFields = 100
)

// stream is a response's body that is received while it is read.
type stream struct {
	x       *slab
	closed  atomic.Bool
	reading sync.Mutex // guards the rest, and the exchange's scratch

	mode   http1.Mode
	left   int64 // of a body by length
	chunks http1.Chunked
	err    error // sticky; io.EOF once all was read
}

func newStream(x *slab, f http1.Framing) *stream {
	return &stream{x: x, mode: f.Mode, left: f.Length}
}

// Read implements io.Reader.
func (b *stream) Read(p []byte) (n int, err error) {
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
		n, err = b.readAll(p)
	}
	if err != nil {
		err = b.stop(err)
	}
	return n, err
}

// Close implements io.Closer. Unless all has arrived that closes the connection.
func (b *stream) Close() error {
	b.closed.Store(true)
	if b.reading.TryLock() {
		if b.err == nil {
			b.settle()
		}
		if b.err == nil {
			_ = b.stop(roundtrip.ErrClosedBody)
		}
		b.reading.Unlock()
	}
	b.x.abandon(roundtrip.ErrClosedBody) // which ends a Read that waits
	return nil
}

// stop ends the body, and the exchange with it. It returns err.
func (b *stream) stop(err error) error {
	x := b.x
	b.err = err
	if err == io.EOF { //nolint:errorlint // our own, for the body's end
		x.finish(x.scratch.head.Persistent && b.mode != http1.UntilClose && x.from == x.to)
	} else {
		x.abandon(err)
	}
	x.release()
	return err
}

func (b *stream) buffered() []byte { return b.x.scratch.in[b.x.from:b.x.to] }

// receive reads into p, or into the scratch if p is small.
func (b *stream) receive(p []byte) (int, error) {
	x := b.x
	if len(p) < len(x.scratch.in) {
		if err := x.fill(); err != nil {
			return 0, err
		}
		n := copy(p, b.buffered())
		x.from += n
		return n, nil
	}
	n, err := x.conn.Read(p)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, x.explain(err)
}

func (b *stream) readLength(p []byte) (n int, err error) {
	if n = copy(p[:min(int64(len(p)), b.left)], b.buffered()); n > 0 {
		b.x.from += n
	} else if n, err = b.receive(p[:min(int64(len(p)), b.left)]); err != nil {
		return 0, err
	}
	if b.left -= int64(n); b.left == 0 {
		err = io.EOF
	}
	return n, err
}

// readAll reads a body that ends with the connection: with the end that TLS tells of where there is TLS.
func (b *stream) readAll(p []byte) (n int, err error) {
	if n = copy(p, b.buffered()); n > 0 {
		b.x.from += n
		return n, nil
	}
	if n, err = b.receive(p); err != nil && b.x.ended {
		err = io.EOF
	}
	return n, err
}

// readChunks reads a body in chunks. A large p takes them as they come, and loses what is
// between them.
func (b *stream) readChunks(p []byte) (n int, err error) {
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
	for before := 0; err == nil && len(b.buffered()) != before && len(b.buffered()) > 0 && n < len(p); { // the end may be here
		before = len(b.buffered())
		var more int
		more, err = b.decode(p[n:], false)
		n += more
	}
	return n, err
}

// decode decodes what is in the scratch: one piece of data, or less, or the body's end, which is
// io.EOF.
func (b *stream) decode(p []byte, wait bool) (int, error) {
	x := b.x
	if b.chunks.Done() {
		return 0, b.readTrailer(wait)
	}
	in := b.buffered()
	data, n, err := b.chunks.Next(in[:min(len(in), len(p))])
	x.from += n
	if err != nil {
		return 0, b.malformed(err)
	}
	return copy(p, data), nil
}

// decodeInPlace decodes what was received into p. What follows the last chunk is put back.
func (b *stream) decodeInPlace(p []byte) (n int, err error) {
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

// putBack makes rest what was received last. The scratch is empty.
func (b *stream) putBack(rest []byte) {
	x := b.x
	if len(rest) > len(x.scratch.in) {
		x.scratch.in = make([]byte, len(rest))
	}
	x.from, x.to = 0, copy(x.scratch.in, rest)
}

// readTrailer reads the trailer section into the response's Trailer, and returns io.EOF then. It
// may wait for it.
func (b *stream) readTrailer(wait bool) error {
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
			x.from += t.Size
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

func (b *stream) malformed(err error) error {
	return b.x.fault(Server, Malformed, "reading the response's body from", err)
}

// settle passes over what has arrived, in case the end is there.
func (b *stream) settle() {
	var err error
	switch b.mode {
	case http1.ByLength:
		if int64(len(b.buffered())) >= b.left {
			b.x.from += int(b.left)
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
			b.x.from += n
		}
	}
	if err != nil {
		_ = b.stop(err)
	}
}

// announceTrailer moves the Trailer field to Response.Trailer, as keys without values.
func (x *slab) announceTrailer() error {
	r := &x.response
	for _, list := range r.Header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			switch {
			case name == "":
				continue
			case !http1.TrailerAllowed(name), len(r.Trailer) >= maxTrailerFields:
				return x.fault(Server, Malformed, "reading the response of", errors.New("trailer fields announced that cannot be"))
			case r.Trailer == nil:
				r.Trailer = make(http.Header)
			}
			r.Trailer[name] = nil
		}
	}
	delete(r.Header, "Trailer")
	return nil
}
