package cache

import (
	"sync"
	"sync/atomic"
)

// lease counts who holds a body that is in memory: the responses that are being sent, and the index. A body that has left the index, and is
// still being sent to clients that read slowly, takes memory as well. All versions of a response that a 304 has made fresh have the
// same body, and so one lease.
type lease struct {
	size int64

	mu      sync.Mutex
	readers int
	entries int // of the index
}

// leases are the bodies in memory that are being sent.
type leases struct {
	read    atomic.Int64 // bytes of them
	loose   atomic.Int64 // of these, what is not in the index
	maxRead atomic.Int64
}

// acquire has a body stay in memory while it is sent. It reports false if too much is being sent from memory.
func (a *leases) acquire(l *lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers == 0 {
		if a.read.Add(l.size) > a.maxRead.Load() {
			a.read.Add(-l.size)
			return false
		}
		if l.entries == 0 {
			a.loose.Add(l.size)
		}
	}
	l.readers++
	return true
}

// release ends an acquire.
func (a *leases) release(l *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers--; l.readers > 0 {
		return
	}
	a.read.Add(-l.size)
	if l.entries == 0 {
		a.loose.Add(-l.size)
	}
}

// enter notes that an entry of the index has a response, leave that it no longer does. Responses without a body in memory have no lease.
func (a *leases) enter(s *stored) {
	if s == nil || s.lease == nil {
		return
	}
	l := s.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries++; l.entries == 1 && l.readers > 0 {
		a.loose.Add(-l.size)
	}
}

func (a *leases) leave(s *stored) {
	if s == nil || s.lease == nil {
		return
	}
	l := s.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries--; l.entries == 0 && l.readers > 0 {
		a.loose.Add(l.size)
	}
}
