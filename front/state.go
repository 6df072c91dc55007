package front

import (
	"sync"
	"sync/atomic"
)

// state is what outlives plans: each thing of it as long as a plan uses it.
type state struct {
	upstreams    registry // what is remembered of groups, by name
	transports   registry // connections to groups, by what they depend on
	caches       registry // by name
	zones        registry // of limits, by name
	logs         registry // by path
	files        registry // handlers of directories, by what they depend on
	sharedCounts registry // numbers that are counted, by what they are of

	logBuffers  logBuffers // that logs are writing
	buffers     sync.Pool  // of *relayBuffer
	exchanges   sync.Pool  // of *exchange, all zero
	proxyStates sync.Pool  // of *passing, all zero
	attempts    pendingAttempts
	compressing atomic.Int64 // answers
	counts      counts
	passwords   passwordFiles
}

func newState() *state { return &state{} }

// shelf holds things that plans share, by key, and counts their users.
type registry struct {
	mu      sync.Mutex
	entries map[string]*registryEntry
}

type registryEntry struct {
	value any
	users int
}

// take returns what is held for the key, or what make makes, and how to give it back: close is called when
// its last user has.
func acquire[T any](s *registry, key string, make_ func() (T, error), close_ func(T)) (thing T, giveBack func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.entries[key]
	if held == nil {
		if thing, err = make_(); err != nil {
			return thing, nil, err
		}
		held = &registryEntry{value: thing}
		if s.entries == nil {
			s.entries = make(map[string]*registryEntry)
		}
		s.entries[key] = held
	}
	held.users++
	thing = held.value.(T)
	return thing, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if held.users--; held.users == 0 {
			delete(s.entries, key)
			close_(thing)
		}
	}, nil
}

// held returns what plans use now, by key.
func inUse[T any](s *registry) map[string]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]T, len(s.entries))
	for key, h := range s.entries {
		all[key] = h.value.(T)
	}
	return all
}
