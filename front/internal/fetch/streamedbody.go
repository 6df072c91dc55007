package fetch

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// maxKept is the length up to which the start of a streamed body is kept.
const maxKept = 16 << 10

// streamedBody is a body that is forwarded while it arrives. An HTTP client may read it in the
// background; end waits for that.
//
// What has arrived before an upstream is chosen is kept for the first reader. While keeps is set,
// the start is also kept for others. HTTP/2 sends it again if the server reports that it has not
// processed the request: by GOAWAY or REFUSED_STREAM (RFC 9113, 8.7). Servers that restart do that
// all the time, and a stream that has begun would fail.
//
// Only the last reader that was opened may read. The one before may still wait for the client. What
// it receives belongs to the next one, so it goes through the kept start.
type streamedBody struct {
	from       arrivingBody
	controller *http.ResponseController

	mu        sync.Mutex
	changed   sync.Cond
	kept      []byte
	err       error         // of from; it follows kept
	keeps     bool          // later readers get the start again
	isStarted bool          // a reader has read
	isReading bool          // a reader is in from.Read
	isClosed  bool          // nothing may be read any more
	current   *streamReader // the last one
	first     streamReader  // avoids an allocation; most bodies have one reader
}

// arrivingBody is a body that reports whether a Read returns at once.
type arrivingBody interface {
	io.Reader
	connection.InputReporter
}

// StreamBody returns a body that is forwarded while it arrives, from a request with a controller.
// It receives what has arrived, and returns an error of that, so that no upstream is involved.
func StreamBody(from arrivingBody, length int64, c *http.ResponseController) (*Body, error) {
	s := &streamedBody{from: from, controller: c}
	s.changed.L = &s.mu
	if from.HasInput() {
		size := int64(maxKept)
		if length >= 0 {
			size = min(size, length)
		}
		s.kept = make([]byte, size)
		n, err := from.Read(s.kept)
		s.kept, s.err = s.kept[:n], err
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return &Body{length: length, stream: s}, nil
}

// open returns the body from its start, or ErrBodyConsumed if that is no longer kept.
func (s *streamedBody) open() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isStarted && !s.keeps {
		return nil, ErrBodyConsumed
	}
	if s.current == nil {
		s.current = &s.first
	} else {
		s.current = new(streamReader)
	}
	s.current.body = s
	s.changed.Broadcast()
	return s.current, nil
}

func (s *streamedBody) isAvailable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.isStarted || s.keeps
}

// keep sets whether the start is kept. It must not begin once a reader has read.
func (s *streamedBody) keep(keeps bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeps = keeps
}

// end waits until there is no reader. A slow client is interrupted.
func (s *streamedBody) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed = true; s.isReading {
		// without deadlines it waits for the body's end
		_ = s.controller.SetReadDeadline(time.Unix(1, 0))
	}
	for s.isReading {
		s.changed.Wait()
	}
}

// streamReader reads a streamedBody once.
type streamReader struct {
	body   *streamedBody
	offset int // in kept
}

// Read implements io.Reader.
func (r *streamReader) Read(p []byte) (n int, err error) {
	s := r.body
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.isClosed:
			return 0, http.ErrBodyReadAfterClose
		case s.current != r:
			return 0, ErrBodyConsumed
		case r.offset < len(s.kept):
			s.isStarted = true
			n = copy(p, s.kept[r.offset:])
			if r.offset += n; r.offset < len(s.kept) {
				return n, nil
			}
			if !s.keeps {
				s.kept, r.offset = nil, 0
			}
			return n, s.err
		case s.err != nil:
			return 0, s.err
		case s.isReading:
			s.changed.Wait()
			continue
		}
		s.isStarted, s.isReading = true, true
		s.mu.Unlock()
		n, err = s.from.Read(p)
		s.mu.Lock()
		s.isReading, s.err = false, err
		s.changed.Broadcast()
		if s.current == r && (!s.keeps || len(s.kept)+n > maxKept) {
			s.keeps, s.kept, r.offset = false, nil, 0
			return n, err
		}
		s.kept = append(s.kept, p[:n]...) // the loop returns it, or the next reader has it
	}
}

// HasInput implements connection.InputReporter. The client then sends at once what has arrived: the
// first bytes with the head, and the end with the last ones.
func (r *streamReader) HasInput() bool {
	s := r.body
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current != r, r.offset < len(s.kept), s.err != nil:
		return true
	case s.isReading:
		return false
	}
	return s.from.HasInput()
}

// Close implements io.Closer. The server closes the request's body.
func (r *streamReader) Close() error { return nil }
