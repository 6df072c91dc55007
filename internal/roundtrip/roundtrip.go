// Package roundtrip is what http.RoundTrippers have in common, whatever they speak: what they
// know of a request before they send it, and how a header is made of field lines.
package roundtrip

import (
	"io"
	"net"
	"net/http"
	"net/textproto"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// MaxEmptyReads is how often a Read may yield neither bytes nor an error in a row.
const MaxEmptyReads = 100

// Body is a request's body. It may be closed while it is read, and is closed once.
type Body struct {
	io.Reader
	closer io.Closer
	closed atomic.Bool
}

// BodyOf returns the body of r, or nil.
func BodyOf(r *http.Request) *Body {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return NewBody(r.Body)
}

// NewBody returns a body that is closed once.
func NewBody(b io.ReadCloser) *Body { return &Body{Reader: b, closer: b} }

// Close closes the body unless that was done. What that says does not matter to a request. A nil body
// is none.
func (b *Body) Close() {
	if b != nil && !b.closed.Swap(true) {
		_ = b.closer.Close()
	}
}

// CloseLater is Close for who must not wait: that may wait for Read.
func (b *Body) CloseLater() {
	if b != nil && !b.closed.Load() {
		go b.Close()
	}
}

// Piece reads from the body after so many reads in a row that have yielded nothing, and reports
// whether it has ended.
func (b *Body) Piece(p []byte, empty int) (n int, end bool, err error) {
	if empty == MaxEmptyReads {
		return 0, false, io.ErrNoProgress
	}
	n, err = b.Read(p)
	if err == io.EOF { //nolint:errorlint // an error that wraps it is another one
		return n, true, nil
	}
	return n, false, err
}

// Repeatable reports whether sending a request twice is no worse than once, to the best of
// what net/http knows.
func Repeatable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// Header makes a header of field lines of text, but for Transfer-Encoding, which net/http moves
// elsewhere. It is h, unless that is nil. Its slices point into values as long as there is room.
func Header(h http.Header, lines []http1.Field, text *http1.Text, values []string) http.Header {
	c := http1.Collect(h, len(lines), values)
	for _, f := range lines {
		name := f.Known.String()
		switch f.Known {
		case http1.NameTransferEncoding:
			continue
		case http1.NameUnknown:
			name = textproto.CanonicalMIMEHeaderKey(text.Of(f.Name))
		}
		c.Add(f.Known, name, text.Of(f.Value))
	}
	return c.Fields
}

// HeadWait is the waiting for the head of a response. Whoever has it holds a lock.
type HeadWait struct {
	Received    bool // the head has come
	HasDeadline bool // there is a read deadline for it
}

// Bound bounds the time until the head has come, unless d is 0.
func (w *HeadWait) Start(c net.Conn, d time.Duration) {
	if d > 0 && !w.Received {
		w.HasDeadline = true
		_ = c.SetReadDeadline(time.Now().Add(d)) // one that cannot be set shows when it is read
	}
}

// Got ends what is bounded, if the connection is still in use.
func (w *HeadWait) Finish(c net.Conn, inUse bool) {
	w.Received = true
	if w.HasDeadline && inUse {
		w.HasDeadline = false
		_ = c.SetReadDeadline(time.Time{})
	}
}
