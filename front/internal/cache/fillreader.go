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

// HasInput implements inputReporter.
func (g *fillReader) HasInput() bool {
	f := g.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == handedOver && g.at >= f.size {
		return hasInput(f.body)
	}
	return f.state != filling || g.at < f.shown
}

// sendTo sends the whole body to a client. It flushes before it waits, also before the first byte
// if streams is set. It copies bytes in memory first, so that a slow client does not hold the
// fill's buffer.
func (g *fillReader) sendTo(w http.ResponseWriter, streams bool) error {
	buf, ok := g.pieces.Get().(*[sendPiece]byte)
	if !ok {
		buf = new([sendPiece]byte)
	}
	isLent := false // a Write that has failed may still read buf: see proxy.abortOnError
	defer func() {
		if !isLent {
			g.pieces.Put(buf)
		}
	}()
	flush := func() {
		if (g.at > 0 || streams) && g.at != g.f.length {
			_ = http.NewResponseController(w).Flush() // without Flush the data is late, but correct
		}
	}
	for {
		b, length, from, err := g.next(flush)
		var n int64
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return g.record(err)
		case b != nil:
			var written int
			written, err = w.Write(buf[:copy(buf[:], b)])
			n, isLent = int64(written), err != nil
		case length > 0:
			n, err = io.Copy(w, from)
		default:
			_, err = io.Copy(struct{ io.Writer }{w}, &flushedBody{from, w})
			return g.record(err)
		}
		if g.at += n; err != nil {
			return g.record(err)
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
