// Package roundtrip is the common part of the HTTP and FastCGI clients: a request's body, the rules
// for retries, the wait for a head, and the making of an http.Header from field lines.
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

// MaxEmptyReads is the number of consecutive Reads that may return neither bytes nor an error.
const MaxEmptyReads = 100

// Body is a request's body. It can be closed while it is read, and is closed once.
type Body struct {
	io.Reader
	closer io.Closer
	closed atomic.Bool
}

// BodyOf returns the body of r, or nil if there is none.
func BodyOf(r *http.Request) *Body {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return NewBody(r.Body)
}

// NewBody returns a Body that reads and closes b.
func NewBody(b io.ReadCloser) *Body { return &Body{Reader: b, closer: b} }

// Close closes the body unless it is closed. It ignores the error, which does not matter to a
// request. b may be nil.
func (b *Body) Close() {
	if b != nil && !b.closed.Swap(true) {
		_ = b.closer.Close()
	}
}

// CloseLater closes the body in another goroutine, because Close may wait for a Read.
func (b *Body) CloseLater() {
	if b != nil && !b.closed.Load() {
		go b.Close()
	}
}

// Piece reads from the body, and reports whether the body has ended. empty is the number of
// consecutive Reads before that returned nothing.
func (b *Body) Piece(p []byte, empty int) (n int, end bool, err error) {
	if empty == MaxEmptyReads {
		return 0, false, io.ErrNoProgress
	}
	n, err = b.Read(p)
	if err == io.EOF { //nolint:errorlint // a wrapped io.EOF is an error
		return n, true, nil
	}
	return n, false, err
}

// Repeatable reports whether a request may be sent twice, by net/http's rule.
func Repeatable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// Header makes an http.Header from the field lines of text, without Transfer-Encoding, which
// net/http keeps elsewhere. It fills h, or a new map if h is nil. The slices of values point into
// values as long as that has room.
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

// HeadWait is the wait for the head of a response. The caller synchronizes its use.
type HeadWait struct {
	Received    bool // the head has been received
	HasDeadline bool // the connection has a read deadline for the head
}

// Start sets the read deadline for the head, unless d is 0 or the head has been received.
func (w *HeadWait) Start(c net.Conn, d time.Duration) {
	if d > 0 && !w.Received {
		w.HasDeadline = true
		_ = c.SetReadDeadline(time.Now().Add(d)) // an error shows at the next Read
	}
}

// Finish records that the head has been received. If the connection is in use, Finish removes the
// deadline.
func (w *HeadWait) Finish(c net.Conn, inUse bool) {
	w.Received = true
	if w.HasDeadline && inUse {
		w.HasDeadline = false
		_ = c.SetReadDeadline(time.Time{})
	}
}
