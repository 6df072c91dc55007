package server

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"maps"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tarehq/tare/front/conf"
)

const (
	// defaultSessionTime is how long a session may be resumed, as in nginx.
	defaultSessionTime = 5 * time.Minute
	// sessionBytes is the memory of a session, about. Without client certificates all have a few
	// hundred bytes.
	sessionBytes = 512
)

// sessionCaches are the caches of TLS sessions, by name. A reload keeps those that are still named.
// Instead of a ticket a client receives the session's random identifier. Such sessions have forward
// secrecy once they are forgotten: no key decrypts them later.
type sessionCaches map[string]*lru.Cache[sessionID, *session]

type sessionID [32]byte

type session struct {
	state   []byte
	expires time.Time
}

// use makes a host's TLS configuration store sessions in the cache that a Listen names, instead of
// tickets.
func (c sessionCaches) use(config *tls.Config, l *conf.Listen) {
	cache := c[l.SessionCache]
	if cache == nil {
		cache, _ = lru.New[sessionID, *session](1) // the size is valid
		c[l.SessionCache] = cache
	}
	cache.Resize(int(l.SessionCacheBytes / sessionBytes))
	lifetime := cmp.Or(l.SessionTimeout, defaultSessionTime)
	config.SessionTicketsDisabled = false
	config.WrapSession = func(_ tls.ConnectionState, state *tls.SessionState) ([]byte, error) {
		b, err := state.Bytes()
		if err != nil {
			return nil, err
		}
		var id sessionID
		_, _ = rand.Read(id[:]) // it never fails
		cache.Add(id, &session{b, time.Now().Add(lifetime)})
		return id[:], nil
	}
	config.UnwrapSession = func(identity []byte, _ tls.ConnectionState) (*tls.SessionState, error) {
		if len(identity) != len(sessionID{}) {
			return nil, nil // a full handshake
		}
		s, ok := cache.Peek(sessionID(identity)) // as in nginx, a use does not keep a session
		if !ok || time.Now().After(s.expires) {
			return nil, nil // likewise
		}
		return tls.ParseSessionState(s.state)
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
	maps.DeleteFunc(c, func(name string, _ *lru.Cache[sessionID, *session]) bool { return !named[name] })
}
