package exchange

import "sync"

// FlushGate is the complete part of a conn's output: responses that wait so that one write sends
// several of them, while a handler runs whose client may need them. If the handler is slow, another
// goroutine sends them through the gate. Meanwhile the conn only appends to its output, and it
// opens the gate before it writes.
type FlushGate struct {
	closed bool // read by the owner only, so that Open of an open gate needs no lock

	mu      sync.Mutex
	dest    Sender
	pending []byte // nil if the gate is open
	sent    int
}

// Close closes the gate behind out, which other goroutines may now send.
func (g *FlushGate) Close(out []byte, to Sender) {
	g.closed = true
	g.mu.Lock()
	g.dest, g.pending, g.sent = to, out, 0
	g.mu.Unlock()
}

// Open opens the gate and returns how many bytes another goroutine has sent.
func (g *FlushGate) Open() (sent int) {
	if !g.closed {
		return 0
	}
	g.closed = false
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dest, g.pending = nil, nil
	return g.sent
}

// Send sends the pending bytes for which there is room.
func (g *FlushGate) Send() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sent < len(g.pending) {
		g.sent += g.dest.TrySend(g.pending[g.sent:])
	}
}
