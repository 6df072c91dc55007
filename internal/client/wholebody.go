package client

import (
	"errors"
	"io"
	"sync/atomic"
	"unsafe"
)

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
