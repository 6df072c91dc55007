package client

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tarehq/tare/internal/connection"
)

// responseBody is the body of a response. Read receives it from the connection.
type responseBody struct {
	x       *slab
	closed  atomic.Bool
	reading sync.Mutex // guards err, and the exchange's scratch
	err     error      // sticky; io.EOF after the end of the body
}

const (
	// maxDrain and drainTimeout limit reading the rest of a body that was closed, as in net/http.
	maxDrain     = 256 << 10
	drainTimeout = 50 * time.Millisecond
)

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (n int, err error) {
	if b.closed.Load() { // the body may just be draining
		return 0, ErrClosedBody
	}
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

var (
	_, _, _ connection.InputReporter = (*responseBody)(nil), (*WholeBody)(nil), (*http2Exchange)(nil)
	_, _    connection.InputAwaiter  = (*responseBody)(nil), (*http2Exchange)(nil)
)

// HasInput implements connection.InputReporter.
func (b *responseBody) HasInput() bool {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.closed.Load() || b.err != nil || b.x.hasInput()
}

// AwaitInput implements connection.InputAwaiter.
func (b *responseBody) AwaitInput() {
	b.reading.Lock()
	defer b.reading.Unlock()
	if !b.closed.Load() && b.err == nil {
		b.x.awaitInput()
	}
}

// Close closes the connection unless the whole body has arrived or soon arrives.
func (b *responseBody) Close() error {
	wasClosed := b.closed.Swap(true)
	if b.reading.TryLock() {
		if b.err == nil {
			err := b.x.scratch.codec.skipBuffered(b.x)
			if err == nil && b.startDraining() {
				return nil
			}
			if err == nil {
				err = ErrClosedBody
			}
			b.end(err)
		}
		b.reading.Unlock()
	}
	if !wasClosed {
		b.x.abandon(ErrClosedBody) // ends a Read that waits
	}
	return nil
}

// startDraining starts a goroutine that reads the rest of the body, if that may keep the
// connection. The caller holds reading, which the goroutine unlocks. The end of the context has no
// effect any more.
func (b *responseBody) startDraining() bool {
	x := b.x
	if x.client.config.Verbatim || !x.scratch.codec.mayDrain(&x.exchange) {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.conn.SetReadDeadline(time.Now().Add(drainTimeout)) != nil {
		return false
	}
	x.contextWatch.stop(x.ctx, &x.exchange)
	x.isDraining = true
	go b.drain()
	return true
}

// drain reads the rest of the body, and ends it.
func (b *responseBody) drain() {
	defer b.reading.Unlock()
	x := b.x
	m := x.client.pieces.Get(pieceBuffer)
	defer x.client.pieces.Put(m)
	var err error
	for left := maxDrain; err == nil && left > 0; {
		var n int
		n, err = x.scratch.codec.readBody(x, m)
		left -= n
	}
	if err != io.EOF || x.conn.SetReadDeadline(time.Time{}) != nil { //nolint:errorlint // the end of the body
		err = ErrClosedBody
	}
	b.end(err)
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

// ErrClosedBody is the error of a Read on a closed body.
var ErrClosedBody = errors.New("http: read on closed response body")

// WholeBody is a response's body that was received together with its head. Its exchange has ended.
type WholeBody struct {
	Text   string // the rest, not read yet
	isView bool   // Text lies in a Memory, which is reused
	closed atomic.Bool
}

// Len returns the number of bytes that have not been read.
func (b *WholeBody) Len() int { return len(b.Text) }

// HasInput implements connection.InputReporter.
func (b *WholeBody) HasInput() bool { return true }

// Read implements io.Reader.
func (b *WholeBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, ErrClosedBody
	}
	n := copy(p, b.Text)
	if b.Text = b.Text[n:]; b.Text == "" {
		return n, io.EOF
	}
	return n, nil
}

// WriteTo implements io.WriterTo. It calls Write once, or WriteString if the text stays valid: a
// writer may keep strings.
func (b *WholeBody) WriteTo(w io.Writer) (int64, error) {
	if b.closed.Load() {
		return 0, ErrClosedBody
	}
	if b.Text == "" {
		return 0, nil
	}
	var n int
	var err error
	if b.isView {
		n, err = w.Write(unsafe.Slice(unsafe.StringData(b.Text), len(b.Text)))
	} else {
		n, err = io.WriteString(w, b.Text)
	}
	b.Text = b.Text[n:]
	return int64(n), err
}

// Close implements io.Closer.
func (b *WholeBody) Close() error {
	b.closed.Store(true)
	return nil
}
