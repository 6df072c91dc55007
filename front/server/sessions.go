package server

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tarehq/tare/front/conf"
)

const (
	// defaultSessionTime is how long a session may be resumed, as in nginx.
	defaultSessionTime = 5 * time.Minute
	// sessionOverhead is the memory of a session besides its state, whose length clients choose by
	// their certificates.
	sessionOverhead = 256
	sessionIDSize   = 32
)

// sessionCaches are the caches of TLS sessions, by name. A reload keeps those that are still named.
type sessionCaches map[string]*sessionCache

// sessionCache stores TLS sessions in memory. Instead of a ticket a client receives the session's
// random identifier. Such sessions have forward secrecy once they are forgotten: no key decrypts
// them later.
type sessionCache struct {
	mu       sync.Mutex
	maxBytes int64
	bytes    int64
	byID     *simplelru.LRU[sessionID, *session] // the least recently stored first
}

type sessionID [sessionIDSize]byte

type session struct {
	state   []byte
	expires time.Time
}

// use makes a host's TLS configuration store sessions in the cache that a Listen names, instead of
// tickets.
func (c sessionCaches) use(config *tls.Config, l *conf.Listen) {
	cache := c[l.SessionCache]
	if cache == nil {
		cache = new(sessionCache)
		cache.byID, _ = simplelru.NewLRU(math.MaxInt, func(_ sessionID, s *session) { cache.bytes -= s.size() })
		c[l.SessionCache] = cache
	}
	cache.resize(l.SessionCacheBytes)
	lifetime := cmp.Or(l.SessionTimeout, defaultSessionTime)
	config.SessionTicketsDisabled = false
	config.WrapSession = func(_ tls.ConnectionState, state *tls.SessionState) ([]byte, error) {
		b, err := state.Bytes()
		if err != nil {
			return nil, err
		}
		return cache.store(b, time.Now().Add(lifetime)), nil
	}
	config.UnwrapSession = func(identity []byte, _ tls.ConnectionState) (*tls.SessionState, error) {
		b := cache.find(identity, time.Now())
		if b == nil {
			return nil, nil // a full handshake
		}
		return tls.ParseSessionState(b)
	}
}

// retain drops the caches that no host names.
func (c sessionCaches) retain(config *conf.Config) {
	named := make(map[string]bool)
	for i := range config.Hosts {
		for _, l := range config.Hosts[i].Listen {
			named[l.SessionCache] = true
		}
	}
	maps.DeleteFunc(c, func(name string, _ *sessionCache) bool { return !named[name] })
}

func (c *sessionCache) resize(maxBytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxBytes = maxBytes
	c.evict()
}

func (c *sessionCache) store(state []byte, expires time.Time) []byte {
	s := &session{state: state, expires: expires}
	var id sessionID
	_, _ = rand.Read(id[:]) // it never fails
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID.Add(id, s)
	c.bytes += s.size()
	c.evict()
	return id[:]
}

func (c *sessionCache) find(identity []byte, now time.Time) []byte {
	if len(identity) != sessionIDSize {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := sessionID(identity)
	s, ok := c.byID.Peek(id) // as in nginx, a use does not keep a session
	if !ok {
		return nil
	}
	if now.After(s.expires) {
		c.byID.Remove(id)
		return nil
	}
	return s.state
}

// evict removes the oldest sessions while there are too many. The caller holds mu.
func (c *sessionCache) evict() {
	for c.bytes > c.maxBytes && c.byID.Len() > 0 {
		c.byID.RemoveOldest()
	}
}

func (s *session) size() int64 { return int64(len(s.state)) + sessionOverhead }
