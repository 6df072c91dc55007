package front

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/connection"
)

const (
	// defaultTimeout is nginx's default for most timeouts.
	defaultTimeout = 60 * time.Second
	// maxPerDeadline bounds the bytes that are sent under one deadline: a client that receives less
	// within a timeout is disconnected. nginx counts each byte as progress, and so does a server
	// that has a connection.SendTimer.
	maxPerDeadline = 128 << 10
	// A deadline may be too early by this fraction of its timeout, which saves setting it for each
	// read and write.
	deadlineSlack = 8
)

// setServerSendTimeout lets the server bound the response, and reports whether it can.
func (x *exchange) setServerSendTimeout(timeout time.Duration) bool {
	if x.sendTimeout != 0 && x.sendTimeout == timeout {
		return true
	}
	v, ok := serverAs[connection.SendTimer](x)
	if !ok || v.SetSendTimeout(timeout) != nil {
		return false
	}
	x.sendTimeout = timeout
	return true
}

// serverAs returns the server's writer as an optional interface.
func serverAs[T any](x *exchange) (t T, ok bool) {
	for w := x.w.ResponseWriter; ; {
		switch v := w.(type) {
		case T:
			return v, true
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return t, false
		}
	}
}

// lingerLimits bound how long a connection is read after its last response, because the client may
// still be sending: in all, and without data. A time of 0 closes it at once.
type lingerLimits struct {
	time, timeout time.Duration
	always        bool // also if the client has sent all of the request
}

// lingerLimitsOf returns a location's limits.
func lingerLimitsOf(s *conf.Settings) (lingerLimits, error) {
	const defaultTime, defaultLingerTimeout = 30 * time.Second, 5 * time.Second // as in nginx
	l := lingerLimits{cmp.Or(s.LingerTime, defaultTime), cmp.Or(s.LingerTimeout, defaultLingerTimeout), false}
	switch s.Linger {
	case "":
	case "always":
		l.always = true
	case "off":
		l.time = 0
	default:
		return l, fmt.Errorf("linger: unknown mode %q", s.Linger)
	}
	return l, nil
}

// setLinger passes the location's limits to the server. Requests without a body rarely need them.
func (x *exchange) setLinger() {
	l := &x.loc.linger
	if x.r.ProtoMajor > 1 || x.r.ContentLength == 0 && !l.always {
		return
	}
	if v, ok := serverAs[connection.ResponseWriter](x); ok {
		_ = v.SetLinger(l.time, l.timeout, l.always) // it fails only after the response
	}
}

// sendDeadline bounds the time between two writes of a response, for servers that do not. It
// extends the deadline when something is written. The zero value has no bound.
type sendDeadline struct {
	timeout time.Duration
	setAt   time.Time // zero if no deadline is set
}

// newSendDeadline starts with the response.
func newSendDeadline(x *exchange, timeout time.Duration) sendDeadline {
	if timeout <= 0 || x.setServerSendTimeout(timeout) {
		return sendDeadline{}
	}
	b := sendDeadline{timeout: timeout}
	if x.r.ProtoMajor == 1 { // the server may send the header before the first write
		b.setIfDue(&x.w)
	}
	return b
}

// startWrite extends the deadline, and returns how many of n bytes may be sent under it.
func (b *sendDeadline) startWrite(w *writer, n int64) int64 {
	if b.timeout > 0 {
		n = min(n, maxPerDeadline)
		b.setIfDue(w)
	}
	return n
}

// extend extends the deadline.
func (b *sendDeadline) extend(w *writer) {
	if b.timeout > 0 {
		b.setIfDue(w)
	}
}

// clear removes the deadline after a write, except in HTTP/1. In HTTP/2 a deadline ends the stream
// even if nothing waits to be sent.
func (b *sendDeadline) clear(w *writer) {
	if !b.setAt.IsZero() && w.x.r.ProtoMajor != 1 {
		b.setAt = time.Time{}
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(b.setAt)
	}
}

func (b *sendDeadline) setIfDue(w *writer) {
	now := time.Now()
	if now.Sub(b.setAt) < b.timeout/deadlineSlack {
		return
	}
	if s, ok := w.x.r.Context().Value(http.ServerContextKey).(*http.Server); b.setAt.IsZero() && ok &&
		s.WriteTimeout > 0 {
		b.timeout = 0 // the server has a bound
		return
	}
	b.setAt = now
	if http.NewResponseController(w.ResponseWriter).SetWriteDeadline(now.Add(b.timeout)) != nil {
		b.timeout = 0 // the server does not support it
	}
}

// limitedBody is a request's body with a maximum length and a timeout.
type limitedBody struct {
	io.ReadCloser
	original      io.ReadCloser // the server's
	x             *exchange
	controller    *http.ResponseController
	timeout       time.Duration          // 0 means none
	deadlineSetAt time.Time              // zero if no deadline is set
	served        connection.RequestBody // the original, if it is one
	received      atomic.Int64           // the bytes that were read
	framing       atomic.Int64           // their chunk framing, if the server reports it
	isComplete    atomic.Bool            // it was read to its end
}

// readTimeout returns 0 if the server has a ReadTimeout, else timeout.
func readTimeout(r *http.Request, timeout time.Duration) time.Duration {
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return 0
	}
	return timeout
}

// Read reads, and records the status to respond with after an error.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.timeout > 0 {
		if now := time.Now(); now.Sub(b.deadlineSetAt) >= b.timeout/deadlineSlack {
			b.deadlineSetAt = now
			if b.controller.SetReadDeadline(now.Add(b.timeout)) != nil {
				b.timeout = 0
			}
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.received.Add(int64(n))
	if b.served != nil {
		if n, ok := b.served.FramingLength(); ok {
			b.framing.Store(n)
		}
	}
	if err != nil {
		if errors.Is(err, io.EOF) {
			b.isComplete.Store(true)
		}
		// a deadline would end the server's watch for the client's departure
		if b.timeout > 0 && errors.Is(err, io.EOF) {
			_ = b.controller.SetReadDeadline(time.Time{})
			b.timeout = 0
		}
		// 400 may be the content's fault: it has closed the body
		if status := bodyStatus(err); status != http.StatusBadRequest {
			b.x.bodyStatus.CompareAndSwap(0, status)
		}
	}
	return n, err
}

// bodyStatus returns the status for an error of reading a request's body, 0 for io.EOF.
func bodyStatus(err error) int32 {
	var tooLong *http.MaxBytesError
	var notStored *fs.PathError
	switch {
	case errors.Is(err, io.EOF):
		return 0
	case errors.As(err, &tooLong):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	case errors.As(err, &notStored):
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}
