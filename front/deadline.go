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
	// unboundedBytes is the size of an answer up to which no deadline is set: the kernel takes them without the client. In HTTP/2,
	// where a client says how much it takes, there is no such size.
	unboundedBytes = 16 << 10
	// sentAtOnce is how much is sent under one deadline. A client that takes less within a timeout is cut off;
	// nginx counts each byte as progress.
	sentAtOnce = 128 << 10
	// deadlineSlack is the part of a timeout by which a deadline may be too early: it is not set for each read and write.
	deadlineSlack = 8
)

// sendBound bounds the time between two writes of an answer. A deadline is set once an answer has become long, and moves
// when something is written. The zero value bounds nothing.
type sendBound struct {
	timeout time.Duration
	left    int       // bytes until the first deadline
	set     time.Time // when the deadline was set last; zero if it was not
}

// newSendBound begins with the answer.
func newSendBound(x *exchange, timeout time.Duration) sendBound {
	if timeout <= 0 {
		return sendBound{}
	}
	b := sendBound{timeout: timeout}
	if x.r.ProtoMajor == 1 {
		b.left = unboundedBytes
	}
	return b
}

// move is called before n bytes are written.
func (b *sendBound) move(w *writer, n int) {
	if b.timeout == 0 {
		return
	}
	if b.set.IsZero() {
		if b.left -= n; b.left > 0 {
			return
		}
	}
	b.setIfDue(w)
}

// span is how much of what there is may be sent under the deadline, which it moves.
func (b *sendBound) span(w *writer, n int64) int64 {
	if b.timeout > 0 {
		n = min(n, sentAtOnce)
		b.move(w, int(n))
	}
	return n
}

// again moves a deadline that was set.
func (b *sendBound) again(w *writer) {
	if !b.set.IsZero() {
		b.setIfDue(w)
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
