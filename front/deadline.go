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
	sentAtOnce = 128 << 10
	// deadlineSlack is the part of a timeout by which a deadline may be too early: it is not set for each read and write.
	deadlineSlack = 8
)

// sendTimer is a server's writer that itself bounds the time in which a client takes nothing: of this response, and of those
// before it that have not been sent. tare's servers have it, for HTTP/1.
type sendTimer interface{ SetSendTimeout(time.Duration) error }

// boundSends has the server bound the response to x, and reports whether it can.
func (x *exchange) boundSends(timeout time.Duration) bool {
	if x.sendTimeout != 0 && x.sendTimeout == timeout {
		return true
	}
	for w := x.server(); ; {
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
type sendBound struct {
	timeout time.Duration
	set     time.Time // when the deadline was set last; zero if it was not
}

// newSendBound begins with the response.
func newSendBound(x *exchange, timeout time.Duration) sendBound {
	if timeout <= 0 || x.boundSends(timeout) {
		return sendBound{}
	}
	b := sendBound{timeout: timeout}
	if x.r.ProtoMajor == 1 { // the header is sent without a write of ours
		b.setIfDue(x.out)
	}
	return b
}

// span is how much of what there is may be sent under the deadline, which it moves.
func (b *sendBound) span(w *writer, n int64) int64 {
	if b.timeout > 0 {
		n = min(n, sentAtOnce)
		b.setIfDue(w)
	}
	return n
}

// again moves the deadline.
func (b *sendBound) again(w *writer) {
	if b.timeout > 0 {
		b.setIfDue(w)
	}
}

// pause is called when what was written has been sent. In HTTP/2 a deadline that passes ends a stream also if nothing waits to
// be sent.
func (b *sendBound) pause(w *writer) {
	if !b.set.IsZero() && w.x.r.ProtoMajor != 1 {
		b.set = time.Time{}
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(b.set)
	}
}

func (b *sendBound) setIfDue(w *writer) {
	now := time.Now()
	if now.Sub(b.set) < b.timeout/deadlineSlack {
		return
	}
	if s, ok := w.x.r.Context().Value(http.ServerContextKey).(*http.Server); b.set.IsZero() && ok && s.WriteTimeout > 0 {
		b.timeout = 0 // the server bounds the time
		return
	}
	b.set = now
	if http.NewResponseController(w.ResponseWriter).SetWriteDeadline(now.Add(b.timeout)) != nil {
		b.timeout = 0 // this server has none
	}
}

// boundedBody is a request's body that must not be too long, nor pause for too long.
type boundedBody struct {
	io.ReadCloser
	whole   io.ReadCloser // the server's
	x       *exchange
	control *http.ResponseController
	timeout time.Duration // 0 is no bound
	set     time.Time     // when the deadline was set last
}

// readTimeout leaves the time alone where the server bounds it.
func readTimeout(r *http.Request, timeout time.Duration) time.Duration {
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return 0
	}
	return timeout
}

// Read reads, and notes what the client is to be told if it cannot.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.timeout > 0 {
		if now := time.Now(); now.Sub(b.set) >= b.timeout/deadlineSlack {
			b.set = now
			if b.control.SetReadDeadline(now.Add(b.timeout)) != nil {
				b.timeout = 0
			}
		}
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if b.timeout > 0 && errors.Is(err, io.EOF) { // it would end the watch for the client's departure
			_ = b.control.SetReadDeadline(time.Time{})
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
