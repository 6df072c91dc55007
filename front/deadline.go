package front

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// defaultTimeout is nginx's, for most of what takes time.
	defaultTimeout = 60 * time.Second
	// sentAtOnce is how much is sent under one deadline. A client that takes less within a timeout is cut off;
	// nginx counts each byte as progress, and so does a server that is a sendTimer.
	maxPerDeadline = 128 << 10
	// deadlineSlack is the part of a timeout by which a deadline may be too early: it is not set for each read and write.
	deadlineSlack = 8
)

// sendTimer is a server's writer that itself bounds the time in which a client takes nothing: of this response, and of those
// before it that have not been sent. tare's servers have it, for HTTP/1.
type sendTimer interface{ SetSendTimeout(time.Duration) error }

// boundSends has the server bound the response to x, and reports whether it can.
func (x *exchange) setServerSendTimeout(timeout time.Duration) bool {
	if x.sendTimeout != 0 && x.sendTimeout == timeout {
		return true
	}
	for w := x.serverWriter(); ; {
		switch v := w.(type) {
		case sendTimer:
			if v.SetSendTimeout(timeout) != nil {
				return false
			}
			x.sendTimeout = timeout
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return false
		}
	}
}

// sendBound bounds the time between two writes of a response where the server does not. It moves the deadline when something is
// written. The zero value bounds nothing.
type sendDeadline struct {
	timeout time.Duration
	setAt   time.Time // when the deadline was set last; zero if it was not
}

// newSendBound begins with the response.
func newSendDeadline(x *exchange, timeout time.Duration) sendDeadline {
	if timeout <= 0 || x.setServerSendTimeout(timeout) {
		return sendDeadline{}
	}
	b := sendDeadline{timeout: timeout}
	if x.r.ProtoMajor == 1 { // the header is sent without a write of ours
		b.setIfDue(x.out)
	}
	return b
}

// span is how much of what there is may be sent under the deadline, which it moves.
func (b *sendDeadline) startWrite(w *writer, n int64) int64 {
	if b.timeout > 0 {
		n = min(n, maxPerDeadline)
		b.setIfDue(w)
	}
	return n
}

// again moves the deadline.
func (b *sendDeadline) extend(w *writer) {
	if b.timeout > 0 {
		b.setIfDue(w)
	}
}

// pause is called when what was written has been sent. In HTTP/2 a deadline that passes ends a stream also if nothing waits to
// be sent.
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
	if s, ok := w.x.r.Context().Value(http.ServerContextKey).(*http.Server); b.setAt.IsZero() && ok && s.WriteTimeout > 0 {
		b.timeout = 0 // the server bounds the time
		return
	}
	b.setAt = now
	if http.NewResponseController(w.ResponseWriter).SetWriteDeadline(now.Add(b.timeout)) != nil {
		b.timeout = 0 // this server has none
	}
}

// boundedBody is a request's body that must not be too long, nor pause for too long.
type limitedBody struct {
	io.ReadCloser
	original      io.ReadCloser // the server's
	x             *exchange
	controller    *http.ResponseController
	timeout       time.Duration // 0 is no bound
	deadlineSetAt time.Time     // when the deadline was set last
}

// readTimeout leaves the time alone where the server bounds it.
func readTimeout(r *http.Request, timeout time.Duration) time.Duration {
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return 0
	}
	return timeout
}

// Read reads, and notes what the client is to be told if it cannot.
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
	if err != nil {
		if b.timeout > 0 && errors.Is(err, io.EOF) { // it would end the watch for the client's departure
			_ = b.controller.SetReadDeadline(time.Time{})
			b.timeout = 0
		}
		if status := bodyStatus(err); status != http.StatusBadRequest { // which may be the content's doing: it has closed the body
			b.x.bodyStatus.CompareAndSwap(0, status)
		}
	}
	return n, err
}

// bodyStatus is what answers a request whose body could not be read: 0 if it was read to the end.
func bodyStatus(err error) int32 {
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		return 0
	case errors.As(err, &tooLong):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout
	}
	return http.StatusBadRequest
}
