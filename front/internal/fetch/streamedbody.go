package fetch

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// streamedBody is a body that is forwarded while it arrives. An HTTP client may read it in the
// background; end waits for that.
type streamedBody struct {
	from       io.Reader
	hasInput   func() bool // a Read of from returns at once
	controller *http.ResponseController

	mu        sync.Mutex
	started   bool // Read was called
	isReading bool // in a Read
	isClosed  bool
	readDone  sync.Cond // isReading became false
}

// StreamBody returns a body that is forwarded while it arrives, from a request with a controller.
// hasInput reports whether a Read returns at once.
func StreamBody(from io.Reader, hasInput func() bool, length int64, c *http.ResponseController) *Body {
	s := &streamedBody{from: from, hasInput: hasInput, controller: c}
	s.readDone.L = &s.mu
	return &Body{length: length, stream: s}
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
	n, err := s.from.Read(p)
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
