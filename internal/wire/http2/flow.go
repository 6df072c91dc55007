package http2

// ReceiveWindow is a window that the peer may use (RFC 9113, 5.2).
type ReceiveWindow struct {
	size   int32 // its full size
	avail  int32 // what the peer may send
	unsent int32 // what was consumed, but not yet returned to the peer
}

// maxRefresh is how many consumed bytes are returned to the peer at once, or less if the window is
// small. Each return may cost a write.
const maxRefresh = 64 << 10

// NewReceiveWindow returns a window of a size, all of which the peer may use.
func NewReceiveWindow(size int32) ReceiveWindow { return ReceiveWindow{size: size, avail: size} }

// Available returns how many bytes the peer may send.
func (w *ReceiveWindow) Available() int32 { return w.avail }

// Take reports whether the peer was allowed to send n bytes.
func (w *ReceiveWindow) Take(n int) bool {
	if int64(n) > int64(w.avail) {
		return false
	}
	w.avail -= int32(n)
	return true
}

// Return returns by how much to increase the peer's window after n bytes were consumed; 0 for
// later.
func (w *ReceiveWindow) Return(n int) (increment uint32) {
	w.unsent += int32(n)
	if w.unsent == 0 || w.unsent < min(maxRefresh, w.size/4) && w.unsent < w.avail {
		return 0
	}
	increment = uint32(w.unsent)
	w.avail += w.unsent
	w.unsent = 0
	return increment
}

// GrowWindow adds to a window that the peer has set. It reports false if the window becomes too
// large.
func GrowWindow(window *int32, by int64) bool {
	n := int64(*window) + by
	if n > MaxWindow {
		return false
	}
	*window = int32(n)
	return true
}
