package core

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/connection"
)

// State is what outlives plans. An entry of a registry lives as long as a plan uses it.
type State struct {
	Upstreams    registry // health of groups, by name
	Transports   registry // connections to groups, by name and settings
	Resolvers    registry // DNS clients, by settings
	Dynamic      registry // groups for addresses from variables, by settings of their resolver
	Caches       registry // by name
	Zones        registry // of limits, by name
	Logs         registry // by path
	Files        registry // handlers of directories, by settings
	sharedCounts registry // counts, by what they count

	LogBuffers  accesslog.Buffers  // for lines of logs
	Buffers     connection.Buffers // of fetch.BufferSize
	Pieces      connection.Buffers // of fetch.PieceSize
	exchanges   sync.Pool          // of *Exchange, all zero
	ProxyStates sync.Pool          // of *proxyState, zeroed except for reusable memory
	Pending     fetch.Pending
	Relay       fetch.Relay
	connections atomic.Int64   // the last number that a connection has received
	Modules     []any          // what modules keep, by slot
	Plans       sync.WaitGroup // that are not released
	// aborted is done after Abort, and ends what exchanges have begun.
	aborted context.Context
	Abort   context.CancelFunc
	// Closing is done once the Handler is closed, and ends copies of requests.
	Closing     context.Context
	Close       context.CancelFunc
	Counts      counts
	lastAddress atomic.Pointer[addressText]
	logFailure  atomic.Pointer[error] // of the first log that lost lines when it was closed
}

// LogFailure returns the error of the first log that lost lines when it was closed, or nil.
func (s *State) LogFailure() error {
	if err := s.logFailure.Load(); err != nil {
		return *err
	}
	return nil
}

// NewState returns the state of plans with these modules.
func NewState(all []Module) *State {
	s := &State{Modules: make([]any, len(all))}
	for at, m := range all {
		if m.NewState != nil {
			s.Modules[at] = m.NewState()
		}
	}
	s.aborted, s.Abort = context.WithCancel(context.Background())
	s.Closing, s.Close = context.WithCancel(context.Background())
	return s
}

// registry holds values that plans share, by all that they are made of, and counts their users.
type registry struct {
	mu      sync.Mutex
	entries map[any]*registryEntry
}

type registryEntry struct {
	value any
	users int
}

// AcquireForPlan returns the value for a key. create makes the value of a new key. The compiler's
// plan releases the value at its end, and end is called after the last plan has released it.
func AcquireForPlan[T any](c *Compiler, s *registry, key any, create func() (T, error), end func(T)) (thing T,
	err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.entries[key]
	if held == nil {
		if thing, err = create(); err != nil {
			return thing, err
		}
		held = &registryEntry{value: thing}
		if s.entries == nil {
			s.entries = make(map[any]*registryEntry)
		}
		s.entries[key] = held
	}
	held.users++
	thing = held.value.(T)
	c.Plan.Releases = append(c.Plan.Releases, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if held.users--; held.users == 0 {
			delete(s.entries, key)
			end(thing)
		}
	})
	return thing, nil
}

// InUse returns the values that plans use, by their keys.
func InUse[K comparable, T any](s *registry) map[K]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[K]T, len(s.entries))
	for key, h := range s.entries {
		all[key.(K)] = h.value.(T)
	}
	return all
}
