package client

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/tarehq/tare/internal/connection"
)

// maxEmptyReads is the number of consecutive Reads that may return neither bytes nor an error.
const maxEmptyReads = 100

// requestBody is a request's body. It can be closed while it is read, and is closed once.
type requestBody struct {
	io.Reader
	closer io.Closer
	closed atomic.Bool
}

// requestBodyOf returns the body of r, or nil if r has no body.
func requestBodyOf(r *http.Request) *requestBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return newRequestBody(r.Body)
}

func newRequestBody(b io.ReadCloser) *requestBody { return &requestBody{Reader: b, closer: b} }

// Close closes the body unless it is closed. It ignores the error, which does not matter to a
// request. b may be nil.
func (b *requestBody) Close() {
	if b != nil && !b.closed.Swap(true) {
		_ = b.closer.Close()
	}
}

// closeLater closes the body in another goroutine, because Close may wait for a Read.
func (b *requestBody) closeLater() {
	if b != nil && !b.closed.Load() {
		go b.Close()
	}
}

// piece reads from the body, and reports whether the body has ended. Reads that need not wait
// follow, so that the last bytes of a body are sent as such. empty is the number of consecutive
// Reads before that returned nothing.
func (b *requestBody) piece(p []byte, empty int) (n int, end bool, err error) {
	if empty == maxEmptyReads {
		return 0, false, io.ErrNoProgress
	}
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
	for empty, end := 0, false; n < len(p) && !end; empty++ {
		var k int
		if k, end, err = b.piece(p[n:], empty); err != nil {
			return n, err
		}
		if n += k; k > 0 {
			empty = 0
		}
	}
	return n, nil
}

// hasInput reports whether the body is known to return from a Read at once.
func (b *requestBody) hasInput() bool {
	body, ok := b.Reader.(connection.InputReporter)
	return ok && body.HasInput()
}

func bodyLengthError(want, got int64) error {
	if got < want {
		return fmt.Errorf("http: ContentLength=%d with Body length %d", want, got)
	}
	return fmt.Errorf("http: ContentLength=%d with Body length %d or more", want, got)
}
