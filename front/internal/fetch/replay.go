package fetch

import (
	"io"
	"sync"

	"github.com/tarehq/tare/internal/connection"
)

// maxReplay is the length up to which the start of a streamed body is kept for a retry.
const maxReplay = 16 << 10

// replay lets HTTP/2 send the start of a streamed body again, if the server reports that it has not
// processed the request: by GOAWAY or REFUSED_STREAM (RFC 9113, 8.7). Servers that restart do that
// all the time, and a stream that has begun would fail.
//
// Only the last reader that was opened may read. The one before may still wait for the client. What
// it receives belongs to the next one, so it goes through the kept start.
type replay struct {
	from io.ReadCloser

	mu        sync.Mutex
	changed   sync.Cond
	kept      []byte
	err       error         // of from
	isReading bool          // a reader is in from.Read
	isOver    bool          // nothing is kept any more
	current   *replayReader // the last one
}

func newReplay(from io.ReadCloser) *replay {
	r := &replay{from: from}
	r.changed.L = &r.mu
	return r
}

// open returns the body from its start, or ErrBodyConsumed if that is no longer kept.
func (r *replay) open() (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isOver {
		return nil, ErrBodyConsumed
	}
	r.current = &replayReader{replay: r}
	r.changed.Broadcast()
	return r.current, nil
}

// end ends keeping: the response has arrived.
func (r *replay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isOver = true
}

// replayReader reads the body once.
type replayReader struct {
	replay *replay
	offset int // in kept
}

// Read implements io.Reader.
func (b *replayReader) Read(p []byte) (int, error) {
	r := b.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case r.current != b:
			return 0, ErrBodyConsumed
		case b.offset < len(r.kept):
			n := copy(p, r.kept[b.offset:])
			if b.offset += n; r.isOver && b.offset == len(r.kept) {
				r.kept, b.offset = nil, 0
			}
			return n, nil
		case r.err != nil:
			return 0, r.err
		case r.isReading:
			r.changed.Wait()
			continue
		}
		r.isReading = true
		r.mu.Unlock()
		n, err := r.from.Read(p)
		r.mu.Lock()
		r.isReading, r.err = false, err
		r.changed.Broadcast()
		if isCurrent := r.current == b; isCurrent && (r.isOver || len(r.kept)+n > maxReplay) {
			r.isOver, r.kept, b.offset = true, nil, 0
			return n, err
		}
		r.kept = append(r.kept, p[:n]...) // the loop returns it, or the next reader has it
	}
}

// HasInput implements connection.InputReporter.
func (b *replayReader) HasInput() bool {
	r := b.replay
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.current != b, b.offset < len(r.kept), r.err != nil:
		return true
	case r.isReading:
		return false
	}
	from, ok := r.from.(connection.InputReporter)
	return ok && from.HasInput()
}

// Close implements io.Closer. The server closes the request's body.
func (b *replayReader) Close() error { return nil }
