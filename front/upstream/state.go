package upstream

import (
	"sync"
	"time"
)

// State is the state of a group's servers, by address. It outlives configurations: the groups of a
// new configuration share it. The zero value is ready for use.
type State struct {
	mu    sync.Mutex // guards everything below, and the peers of groups
	known map[string]*health
}

// health is the state of an address.
//
//	available -> resting     MaxFails failures without a success in between
//	resting   -> trial       the first request later than failTimeout after the last failure
//	trial     -> available   the request succeeds
//	trial     -> resting     the request fails
type health struct {
	fails   int       // since the last successful trial
	failed  time.Time // the time of the last failure
	checked time.Time // the last failure, or the last trial
	conns   int       // requests in progress
	users   int       // number of peers
}

// acquire returns the state of an address. The caller holds mu.
func (s *State) acquire(addr string) *health {
	h := s.known[addr]
	if h == nil {
		h = new(health)
		if s.known == nil {
			s.known = make(map[string]*health)
		}
		s.known[addr] = h
	}
	h.users++
	return h
}

// release ends a peer's use of an address. The caller holds mu.
func (s *State) release(addr string, h *health) {
	if h.users--; h.users == 0 && s.known[addr] == h {
		delete(s.known, addr)
	}
}

// resting reports whether a server is unavailable after failures. Its next trial is failTimeout
// after the last one.
func (h *health) resting(maxFails int, failTimeout time.Duration, now time.Time) bool {
	return maxFails > 0 && h.fails >= maxFails && now.Sub(h.checked) <= failTimeout
}

// begin records the start of a request. The first one after failTimeout is a trial: the server gets
// no others until it has succeeded, or for another failTimeout.
func (h *health) begin(failTimeout time.Duration, now time.Time) {
	h.conns++
	if now.Sub(h.checked) > failTimeout {
		h.checked = now
	}
}

// fail records a failure.
func (h *health) fail(now time.Time) {
	h.fails++
	h.failed, h.checked = now, now
}

// succeed resets failures, if the request began after the last one.
func (h *health) succeed() {
	if h.failed.Before(h.checked) {
		h.fails = 0
	}
}
