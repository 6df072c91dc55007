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
}

// Forward returns the body of a response, which can be read forward only. It can seek to its end if
// that is known.
func Forward(resp *http.Response) io.ReadSeeker { return &fillReader{f: unstored(resp)} }

var errPassedOver = errors.New("cache: this part of the response has already been read")

// Read implements io.Reader.
func (g *fillReader) Read(p []byte) (n int, err error) {
	f := g.f
	for {
		f.mu.Lock()
		most := min(int64(len(p)), f.readable()-g.at)
		switch {
		case most > 0 && f.draft == nil:
			n = copy(p[:most], f.buf[g.at:])
			f.mu.Unlock()
			g.at += int64(n)
			return n, nil
		case most > 0:
			file := f.draft.file
			f.mu.Unlock()
			if n, err = file.ReadAt(p[:most], f.bodyAt+g.at); errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			g.at += int64(n)
			return n, err
		case f.state == filled:
			f.mu.Unlock()
			return 0, io.EOF
		case f.state == broken:
			defer f.mu.Unlock()
			return 0, f.err
		case f.state == handedOver:
			f.mu.Unlock()
			return g.readRest(p)
		}
		if f.moved == nil {
			f.moved = make(chan struct{})
		}
		moved := f.moved
		f.mu.Unlock()
		select {
		case <-moved:
		case <-g.ctx.Done():
			return 0, g.ctx.Err()
		}
	}
}

// readRest reads what was handed over.
func (g *fillReader) readRest(p []byte) (n int, err error) {
	if err = g.skip(); err == nil {
		n, err = g.f.body.Read(p)
	}
	g.rest += int64(n)
	g.at += int64(n)
	return n, err
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

// HasInput implements inputReporter.
func (g *fillReader) HasInput() bool {
	f := g.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == handedOver && g.at >= f.size {
		return g.at == f.size+g.rest && HasInput(f.body)
	}
	return f.state != filling || g.at < f.shown
}

// sendTo sends the whole body to a client.
func (g *fillReader) sendTo(w http.ResponseWriter) error {
	buf, ok := g.pieces.Get().(*[sendPiece]byte)
	if !ok {
		buf = new([sendPiece]byte)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, &servedBody{g, w, false}, buf[:])
	if err == nil { // a Write that has failed may still read buf: see proxy.abortOnError
		g.pieces.Put(buf)
	}
	return err
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
