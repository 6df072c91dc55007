package cache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// fillReader reads a fill while it arrives. Waiting ends with the context.
type fillReader struct {
	ctx    context.Context
	f      *fill
	at     int64
	rest   int64      // bytes read since the fill was handed over
	pieces *sync.Pool // of *[sendPiece]byte
	err    error      // of a read, other than io.EOF
}

var errPassedOver = errors.New("cache: this part of the response has already been read")

// next waits for bytes and returns them, if they are in memory. Otherwise it returns a reader: of n
// bytes of the file, or of the body after it was handed over (n is 0).
func (g *fillReader) next(wait func()) (b []byte, n int64, from io.Reader, err error) {
	f := g.f
	for {
		f.mu.Lock()
		readable := f.readable()
		switch {
		case g.at < readable && f.draft == nil:
			b = f.buf[g.at:readable]
			f.mu.Unlock()
			return b, int64(len(b)), nil, nil
		case g.at < readable:
			n = readable - g.at
			from = io.NewSectionReader(f.draft.file, f.bodyAt+g.at, n)
			f.mu.Unlock()
			return nil, n, from, nil
		case f.state == filled:
			f.mu.Unlock()
			return nil, 0, nil, io.EOF
		case f.state == broken:
			defer f.mu.Unlock()
			return nil, 0, nil, f.err
		case f.state == handedOver:
			f.mu.Unlock()
			return nil, 0, f.body, g.skip()
		}
		if f.moved == nil {
			f.moved = make(chan struct{})
		}
		moved := f.moved
		f.mu.Unlock()
		wait()
		select {
		case <-moved:
		case <-g.ctx.Done():
			return nil, 0, nil, g.ctx.Err()
		}
	}
}

// skip discards what was handed over up to the reader's position.
func (g *fillReader) skip() error {
	missing := g.at - (g.f.size + g.rest)
	if missing < 0 {
		return errPassedOver
	}
	n, err := io.CopyN(io.Discard, g.f.body, missing)
	g.rest += n
	return err
}

// Read implements io.Reader.
func (g *fillReader) Read(p []byte) (n int, err error) {
	b, length, from, err := g.next(func() {})
	switch {
	case err != nil:
	case b != nil:
		n = copy(p, b)
	case length > 0:
		n, err = from.Read(p[:min(int64(len(p)), length)])
	default:
		n, err = from.Read(p)
		g.rest += int64(n)
	}
	g.at += int64(n)
	return n, g.record(err)
}

func (g *fillReader) record(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		g.err = err
	}
	return err
}

// WriteTo writes the whole body to a client. It flushes before it waits. It copies bytes in memory
// first, so that a slow client does not hold the fill's buffer.
func (g *fillReader) WriteTo(w io.Writer) (total int64, err error) {
	buf, ok := g.pieces.Get().(*[sendPiece]byte)
	if !ok {
		buf = new([sendPiece]byte)
	}
	defer g.pieces.Put(buf)
	flush := func() {
		if flusher, ok := w.(http.Flusher); ok && g.at > 0 && g.at != g.f.length {
			flusher.Flush()
		}
	}
	for {
		b, length, from, err := g.next(flush)
		var n int64
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, g.record(err)
		case b != nil:
			var written int
			written, err = w.Write(buf[:copy(buf[:], b)])
			n = int64(written)
		case length > 0:
			n, err = io.Copy(w, from)
		default:
			n, err = io.Copy(w, from)
			g.at, total = g.at+n, total+n
			return total, g.record(err)
		}
		g.at, total = g.at+n, total+n
		if err != nil {
			return total, g.record(err)
		}
	}
}

// Seek implements io.Seeker, for bodies whose length is known.
func (g *fillReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += g.at
	case io.SeekEnd:
		offset += g.f.length
	}
	g.at = offset
	return offset, nil
}

// Close records that there is no reader any more.
func (g *fillReader) Close() error {
	g.f.leave(abandonedFor)
	return nil
}

// settle waits until the body is complete, and reports whether it is. The length is known then.
func (g *fillReader) settle() bool {
	f := g.f
	for {
		f.mu.Lock()
		if f.state == filled {
			f.length = f.size
		}
		state, moved := f.state, f.moved
		if state == filling && moved == nil {
			moved = make(chan struct{})
			f.moved = moved
		}
		f.mu.Unlock()
		if state != filling {
			return state == filled
		}
		select {
		case <-moved:
		case <-g.ctx.Done():
			return false
		}
	}
}
