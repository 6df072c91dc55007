package exchange

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// TLS handshakes leave much garbage. If thousands of clients connect and then wait, nothing
// allocates any more: the collector does not run for two minutes, and the process keeps twice the
// memory of its connections. So a server that rests after many handshakes runs the collector once
// and returns free memory: an idle connection then takes 6.4 KB instead of 12.3.
const (
	// leastHandshakes is how many handshakes must have been completed since the last time.
	leastHandshakes = 500
	// restTime is for how long no handshake may have been completed.
	restTime = 500 * time.Millisecond
	// heapPerHandshake limits the heap that is collected for each handshake. That takes about 20
	// µs, a handshake more than 300.
	heapPerHandshake = 64 << 10
)

// CountHandshake counts a completed TLS handshake.
func (s *ServerState) CountHandshake() {
	n := s.Handshakes.Add(1)
	if n-s.trimmedAt.Load() >= leastHandshakes && s.awaitsRest.CompareAndSwap(false, true) {
		time.AfterFunc(restTime, func() { s.trimAtRest(n) })
	}
}

// trimAtRest returns free memory if there were no handshakes after the first n, and otherwise waits
// again.
func (s *ServerState) trimAtRest(n int64) {
	if now := s.Handshakes.Load(); now != n {
		time.AfterFunc(restTime, func() { s.trimAtRest(now) })
		return
	}
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	isWorthwhile := heap[0].Value.Uint64() <= uint64(n-s.trimmedAt.Load())*heapPerHandshake
	if isWorthwhile {
		s.trimmedAt.Store(n)
	}
	s.awaitsRest.Store(false)
	if isWorthwhile {
		debug.FreeOSMemory()
	}
}
