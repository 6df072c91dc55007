package fetch

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// streamedBody is a body that is forwarded while it arrives. An HTTP client may read it in the
// background; end waits for that.
type streamedBody struct {
	from       arrivingBody
	controller *http.ResponseController
	first      []byte // received before an upstream was chosen
	firstErr   error  // io.EOF if that is all

	mu        sync.Mutex
	started   bool // Read was called
	isReading bool // in a Read
	isClosed  bool
	readDone  sync.Cond // isReading became false
}

// maxFirstPiece bounds what is received of a streamed body before an upstream is chosen.
const maxFirstPiece = 16 << 10

// arrivingBody is a body that reports whether a Read returns at once.
type arrivingBody interface {
	io.Reader
	connection.InputReporter
}

// StreamBody returns a body that is forwarded while it arrives, from a request with a controller. It
// receives what has arrived, and returns an error of that, so that no upstream is involved.
func StreamBody(from arrivingBody, length int64, c *http.ResponseController) (*Body, error) {
	s := &streamedBody{from: from, controller: c}
	s.readDone.L = &s.mu
	if from.HasInput() {
		size := int64(maxFirstPiece)
		if length >= 0 {
			size = min(size, length)
		}
		s.first = make([]byte, size)
		n, err := from.Read(s.first)
		s.first, s.firstErr = s.first[:n], err
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return &Body{length: length, stream: s}, nil
}

// read reads what was received before, and then the rest.
func (s *streamedBody) read(p []byte) (n int, err error) {
	switch {
	case len(s.first) > 0:
		if n = copy(p, s.first); n == len(s.first) {
			err = s.firstErr
		}
		s.first = s.first[n:]
		return n, err
	case s.firstErr != nil:
		return 0, s.firstErr
	}
	return s.from.Read(p)
}

func (s *streamedBody) hasStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

func (s *streamedBody) Read(p []byte) (int, error) {
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	s.started, s.isReading = true, true
	s.mu.Unlock()
	n, err := s.read(p)
	s.mu.Lock()
	s.isReading = false
	s.readDone.Broadcast()
	s.mu.Unlock()
	return n, err
}

// Close implements io.Closer. The server closes the request's body.
func (s *streamedBody) Close() error { return nil }

// end waits until there is no reader. A slow client is interrupted.
func (s *streamedBody) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed = true; s.isReading {
		// without deadlines it waits for the body's end
		_ = s.controller.SetReadDeadline(time.Unix(1, 0))
	}
	for s.isReading {
		s.readDone.Wait()
	}
}
