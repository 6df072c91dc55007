package front

import (
	"sync"
	"sync/atomic"
)

// state is what outlives plans: each thing of it as long as a plan uses it.
type state struct {
	upstreams shelf // what is remembered of groups, by name
	links     shelf // connections to groups, by what they depend on
	caches    shelf // by name
	zones     shelf // of limits, by name
	logs      shelf // by path
	files     shelf // handlers of directories, by what they depend on
	tallies   shelf // numbers that are counted, by what they are of

	lines       lines     // that logs are writing
	buffers     sync.Pool // of *relayBuffer
	exchanges   sync.Pool // of *exchange, all zero
	passings    sync.Pool // of *passing, all zero
	attempts    nursery
	compressing atomic.Int64 // answers
	counts      counts
	passwords   passwordFiles
}

func newState() *state { return &state{} }

// shelf holds things that plans share, by key, and counts their users.
type shelf struct {
	mu   sync.Mutex
	held map[string]*shared
}

type shared struct {
	thing any
	users int
}

// take returns what is held for the key, or what make makes, and how to give it back: close is called when
// its last user has.
func take[T any](s *shelf, key string, make_ func() (T, error), close_ func(T)) (thing T, giveBack func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held[key]
	if held == nil {
		if thing, err = make_(); err != nil {
			return thing, nil, err
		}
		held = &shared{thing: thing}
		if s.held == nil {
			s.held = make(map[string]*shared)
		}
		s.held[key] = held
	}
	held.users++
	thing = held.thing.(T)
	return thing, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if held.users--; held.users == 0 {
			delete(s.held, key)
			close_(thing)
		}
	}, nil
}

// held returns what plans use now, by key.
func held[T any](s *shelf) map[string]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]T, len(s.held))
	for key, h := range s.held {
		all[key] = h.thing.(T)
	}
	return all
}
