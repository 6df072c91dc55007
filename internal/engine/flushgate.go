package engine

import "sync"

// seal is the beginning of a conn's output that is complete: answers that were held
// back so that one write takes them together, while a handler runs that may need
// them sent. Whoever finds that handler slow sends them from another goroutine. The
// conn itself only appends behind them meanwhile, and opens the seal before it
// writes.
type seal struct {
	closed bool // the owner's; without it open costs nothing

	mu    sync.Mutex
	to    sender
	bytes []byte // nil: nothing is sealed
	sent  int
}

// sender sends what can be sent without waiting, and says how much that was.
type sender interface{ sendNow([]byte) int }

// close seals out.
func (s *seal) close(out []byte, to sender) {
	s.closed = true
	s.mu.Lock()
	s.to, s.bytes, s.sent = to, out[:len(out):len(out)], 0
	s.mu.Unlock()
}

// open ends the sealing and returns how many bytes were sent from another goroutine.
func (s *seal) open() (sent int) {
	if !s.closed {
		return 0
	}
	s.closed = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to, s.bytes = nil, nil
	return s.sent
}

// send sends what is sealed, as far as there is room for it.
func (s *seal) send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent < len(s.bytes) {
		s.sent += s.to.sendNow(s.bytes[s.sent:])
	}
}
