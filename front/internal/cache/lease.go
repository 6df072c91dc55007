package cache

import (
	"sync"
	"sync/atomic"
)

// lease counts the users of a body in memory: responses that are being sent, and entries of the
// index. A body that has left the index still needs memory while slow clients read it. All versions
// of a response that 304s have refreshed share a body, and so a lease.
type lease struct {
	size int64

	mu      sync.Mutex
	readers int
	entries int // entries of the index
}

// leases counts the bodies in memory that are being sent.
type leases struct {
	read    atomic.Int64 // bytes that are being sent
	loose   atomic.Int64 // the part of read that is not in the index
	maxRead atomic.Int64
}

// acquire keeps a body in memory while it is sent. It returns false if too much is being sent from
// memory.
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

// release ends the use that acquire began.
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

// enter records that an entry of the index has a response, leave that it no longer does. Responses
// without a body in memory have no lease.
func (a *leases) enter(s *stored) { a.count(s, 1) }
func (a *leases) leave(s *stored) { a.count(s, -1) }

func (a *leases) count(s *stored, by int) {
	if s == nil || s.lease == nil {
		return
	}
	l := s.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.entries
	if l.entries += by; l.readers > 0 && (before == 0) != (l.entries == 0) {
		a.loose.Add(-int64(by) * l.size)
	}
}
