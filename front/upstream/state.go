package upstream

import (
	"sync"
	"time"
)

// State is what is remembered of a group's servers, by address. It outlives configurations: groups that are made of new ones
// share it. The zero value is ready.
type State struct {
	mu    sync.Mutex // guards everything below, and what groups choose by
	known map[string]*health
}

// health is what is remembered of an address.
type health struct {
	fails   int       // since the last trial that went well
	failed  time.Time // the last time
	checked time.Time // the last failure, or the last request after some time
	conns   int       // requests in work
	users   int       // peers
}

// take returns what is remembered of an address. The caller holds mu.
func (s *State) take(addr string) *health {
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

// giveBack ends a peer's use. The caller holds mu.
func (s *State) giveBack(addr string, h *health) {
	if h.users--; h.users == 0 && s.known[addr] == h {
		delete(s.known, addr)
	}
}

// resting reports whether a server has failed too often lately to be asked: its next trial is due a while after the last.
func (h *health) resting(maxFails int, failTimeout time.Duration, now time.Time) bool {
	return maxFails > 0 && h.fails >= maxFails && now.Sub(h.checked) <= failTimeout
}

// begin is told of a request. The first one after a while is the trial, until which goes wrong or well others
// stay away.
func (h *health) begin(failTimeout time.Duration, now time.Time) {
	h.conns++
	if now.Sub(h.checked) > failTimeout {
		h.checked = now
	}
}

// fail remembers a failure.
func (h *health) fail(now time.Time) {
	h.fails++
	h.failed, h.checked = now, now
}

// succeed forgets failures, if the request began after the last one.
func (h *health) succeed() {
	if h.failed.Before(h.checked) {
		h.fails = 0
	}
}
