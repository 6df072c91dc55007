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
	names map[string]*knownName

	checks map[string]*checkedServers // by key
	bad    map[string]int             // the number of Checks that have failed, by address
}

// knownName is what the last lookup of a name has returned. A new configuration begins with it.
type knownName struct {
	addresses []string
	users     int // number of groups
}

// acquireName returns the known addresses of a name.
func (s *State) acquireName(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.names[name]
	if n == nil {
		n = new(knownName)
		if s.names == nil {
			s.names = make(map[string]*knownName)
		}
		s.names[name] = n
	}
	n.users++
	return n.addresses
}

// learnName keeps the addresses of a name that is in use.
func (s *State) learnName(name string, addresses []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.names[name]; n != nil {
		n.addresses = addresses
	}
}

// releaseName ends a group's use of a name.
func (s *State) releaseName(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.names[name]; n != nil {
		if n.users--; n.users == 0 {
			delete(s.names, name)
		}
	}
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
	// recovered is when the server became available again: see slow_start.
	recovered time.Time
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
func (h *health) succeed(maxFails int, now time.Time) {
	if h.failed.Before(h.checked) {
		if maxFails > 0 && h.fails >= maxFails {
			h.recovered = now
		}
		h.fails = 0
	}
}
