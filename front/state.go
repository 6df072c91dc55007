package front

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/htpasswd"
	"github.com/tarehq/tare/internal/connection"
)

// state is what outlives plans. An entry of a registry lives as long as a plan uses it.
type state struct {
	upstreams    registry // health of groups, by name
	transports   registry // connections to groups, by name and settings
	resolvers    registry // DNS clients, by settings
	dynamic      registry // groups for addresses from variables, by settings of their resolver
	caches       registry // by name
	zones        registry // of limits, by name
	logs         registry // by path
	files        registry // handlers of directories, by settings
	sharedCounts registry // counts, by what they count

	logBuffers  accesslog.Buffers // for lines of logs
	buffers     fetch.Buffers
	pieces      connection.Buffers // of fetch.PieceSize
	exchanges   sync.Pool          // of *exchange, all zero
	proxyStates sync.Pool          // of *proxyState, zeroed except for reusable memory
	pending     fetch.Pending
	compressing atomic.Int64 // responses, by gzip
	// heavyCompressing are the responses that are compressed by Brotli or Zstandard.
	heavyCompressing atomic.Int64
	connections      atomic.Int64   // the last number that a connection has received
	modules          []any          // what modules keep, by slot
	plans            sync.WaitGroup // that are not released
	// aborted is done after Abort, and ends what exchanges have begun.
	aborted context.Context
	abort   context.CancelFunc
	// closing is done once the Handler is closed, and ends copies of requests.
	closing     context.Context
	close       context.CancelFunc
	counts      counts
	passwords   *htpasswd.Files
	lastAddress atomic.Pointer[addressText]
}

func newState() *state {
	s := &state{passwords: htpasswd.New(), modules: newModuleStates()}
	s.aborted, s.abort = context.WithCancel(context.Background())
	s.closing, s.close = context.WithCancel(context.Background())
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

// acquire returns the value for a key, and a function that releases it. make_ makes the value of a
// new key. close_ is called after the last user has released it.
func acquire[T any](s *registry, key any, make_ func() (T, error), close_ func(T)) (thing T, release func(),
	err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.entries[key]
	if held == nil {
		if thing, err = make_(); err != nil {
			return thing, nil, err
		}
		held = &registryEntry{value: thing}
		if s.entries == nil {
			s.entries = make(map[any]*registryEntry)
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

// inUse returns the values that plans use, by their keys, which are strings.
func inUse[T any](s *registry) map[string]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]T, len(s.entries))
	for key, h := range s.entries {
		all[key.(string)] = h.value.(T)
	}
	return all
}
