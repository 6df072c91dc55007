package engine

import "sync"

// flushGate is the complete part of a conn's output: responses that wait so that one write sends
// several of them, while a handler runs whose client may need them. If the handler is slow, another
// goroutine sends them through the gate. Meanwhile the conn only appends to its output, and it
// opens the gate before it writes.
type flushGate struct {
	closed bool // read by the owner only, so that open of an open gate needs no lock

	mu      sync.Mutex
	dest    sender
	pending []byte // nil if the gate is open
	sent    int
}

// sender sends what can be sent without blocking, and returns how much that was.
type sender interface{ trySend([]byte) int }

// close closes the gate behind out, which other goroutines may now send.
func (s *flushGate) close(out []byte, to sender) {
	s.closed = true
	s.mu.Lock()
	s.dest, s.pending, s.sent = to, out[:len(out):len(out)], 0
	s.mu.Unlock()
}

// open opens the gate and returns how many bytes another goroutine has sent.
func (s *flushGate) open() (sent int) {
	if !s.closed {
		return 0
	}
	s.closed = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dest, s.pending = nil, nil
	return s.sent
}

// send sends the pending bytes for which there is room.
func (s *flushGate) send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent < len(s.pending) {
		s.sent += s.dest.trySend(s.pending[s.sent:])
	}
}
