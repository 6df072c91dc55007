package exchange

import "sync"

// FlushGate is the complete part of a conn's output: responses that wait so that one write sends
// several of them, while a handler runs whose client may need them. If the handler is slow, another
// goroutine sends them through the gate. Meanwhile the conn only appends to its output, and it
// opens the gate before it writes.
type FlushGate struct {
	closed bool // read by the owner only, so that open of an open gate needs no lock

	mu      sync.Mutex
	dest    Sender
	pending []byte // nil if the gate is open
	sent    int
}

// Sender sends what can be sent without blocking, and returns how much that was.
type Sender interface{ TrySend([]byte) int }

// Close closes the gate behind out, which other goroutines may now send.
func (s *FlushGate) Close(out []byte, to Sender) {
	s.closed = true
	s.mu.Lock()
	s.dest, s.pending, s.sent = to, out[:len(out):len(out)], 0
	s.mu.Unlock()
}

// Open opens the gate and returns how many bytes another goroutine has sent.
func (s *FlushGate) Open() (sent int) {
	if !s.closed {
		return 0
	}
	s.closed = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dest, s.pending = nil, nil
	return s.sent
}

// Send sends the pending bytes for which there is room.
func (s *FlushGate) Send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent < len(s.pending) {
		s.sent += s.dest.TrySend(s.pending[s.sent:])
	}
}
