package client

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/tarehq/tare/internal/connection"
)

// maxEmptyReads is the number of consecutive Reads that may return neither bytes nor an error.
const maxEmptyReads = 100

// requestBody is a request's body. It can be closed while it is read, and is closed once.
type requestBody struct {
	body   io.ReadCloser
	closed atomic.Bool
	empty  int // the number of consecutive Reads that have returned nothing
}

func newRequestBody(b io.ReadCloser) *requestBody { return &requestBody{body: b} }

// Close closes the body unless it is closed. It ignores the error, which does not matter to a
// request. b may be nil.
func (b *requestBody) Close() {
	if b != nil && !b.closed.Swap(true) {
		_ = b.body.Close()
	}
}

// closeLater closes the body in another goroutine, because Close may wait for a Read.
func (b *requestBody) closeLater() {
	if b != nil && !b.closed.Load() {
		go b.Close()
	}
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.empty++; n > 0 {
		b.empty = 0
	} else if err == nil && b.empty == maxEmptyReads {
		err = io.ErrNoProgress
	}
	return n, err
}

// piece reads from the body, and reports whether the body has ended. Further Reads
// follow if they need not wait, so that the last piece of a body is sent as such.
func (b *requestBody) piece(p []byte) (n int, end bool, err error) {
	n, err = b.Read(p)
	for more := n; err == nil && more > 0 && n < len(p) && b.hasInput(); n += more {
		more, err = b.Read(p[n:])
	}
	if err == io.EOF { //nolint:errorlint // a wrapped io.EOF is an error
		return n, true, nil
	}
	return n, false, err
}

// readInto reads the body until its end, or until p is full.
func (b *requestBody) readInto(p []byte) (n int, err error) {
	for end := false; n < len(p) && !end && err == nil; {
		var k int
		k, end, err = b.piece(p[n:])
		n += k
	}
	return n, err
}

// hasInput reports whether the body is known to return from a Read at once.
func (b *requestBody) hasInput() bool {
	body, ok := b.body.(connection.InputReporter)
	return ok && body.HasInput()
}

func bodyLengthError(want, got int64) error {
	if got < want {
		return fmt.Errorf("http: ContentLength=%d with Body length %d", want, got)
	}
	return fmt.Errorf("http: ContentLength=%d with Body length %d or more", want, got)
}
