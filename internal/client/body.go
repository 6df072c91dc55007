package client

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// responseBody is the body of a response. Read receives it from the connection.
type responseBody struct {
	x       *slab
	closed  atomic.Bool
	reading sync.Mutex // guards err, and the exchange's scratch
	err     error      // sticky; io.EOF after the end of the body
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (n int, err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	switch {
	case b.closed.Load():
		return 0, ErrClosedBody
	case b.err != nil:
		return 0, b.err
	case len(p) == 0:
		return 0, nil
	}
	if n, err = b.x.scratch.codec.readBody(b.x, p); err != nil {
		b.end(err)
	}
	return n, err
}

// HasInput reports whether a Read returns at once, as far as the system can tell.
func (b *responseBody) HasInput() bool {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.closed.Load() || b.err != nil || b.x.hasInput()
}

// Close closes the connection unless the whole body has arrived.
func (b *responseBody) Close() error {
	b.closed.Store(true)
	if b.reading.TryLock() {
		if b.err == nil {
			err := b.x.scratch.codec.skipBuffered(b.x)
			if err == nil {
				err = ErrClosedBody
			}
			b.end(err)
		}
		b.reading.Unlock()
	}
	b.x.abandon(ErrClosedBody) // ends a Read that waits
	return nil
}

// end ends the body and the exchange.
func (b *responseBody) end(err error) {
	x := b.x
	b.err = err
	if err == io.EOF { //nolint:errorlint // the end of the body, never wrapped
		x.finish(x.scratch.codec.isClean(&x.exchange))
	} else {
		x.abandon(err)
	}
	x.release()
}

// endWhole ends the exchange of a response that was received with its whole body.
func (x *slab) endWhole(body string, isClean bool) {
	x.finish(isClean)
	x.response.Body = http.NoBody
	if body != "" {
		x.whole.Text, x.whole.isView = body, x.scratch.memory != nil
		x.response.Body = &x.whole
	}
	x.release()
}
