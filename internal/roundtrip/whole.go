package roundtrip

import (
	"errors"
	"io"
	"sync/atomic"
)

// ErrClosedBody is what reading a body says that was closed.
var ErrClosedBody = errors.New("http: read on closed response body")

// WholeBody is a response's body that has come with its head: the exchange is over, and nobody waits for anything.
type WholeBody struct {
	Text   string // what was not read yet
	closed atomic.Bool
}

// Len is how much was not read yet.
func (b *WholeBody) Len() int { return len(b.Text) }

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

// WriteTo implements io.WriterTo: by one write.
func (b *WholeBody) WriteTo(w io.Writer) (int64, error) {
	if b.closed.Load() {
		return 0, ErrClosedBody
	}
	if b.Text == "" {
		return 0, nil
	}
	n, err := io.WriteString(w, b.Text)
	b.Text = b.Text[n:]
	return int64(n), err
}

// Close implements io.Closer.
func (b *WholeBody) Close() error {
	b.closed.Store(true)
	return nil
}
