// Package upstream chooses the server of a group for each request, and records failures.
//
// Words of this package:
//
//   - peer: a server at one address; a name with several addresses is several peers.
//   - turn: the choice of servers for one request, a different one for each attempt.
//   - resting: unavailable after too many failures, until the next trial request.
//   - balancer: chooses by a load balancing method for one group.
//   - lookup: one resolution of a name.
package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tarehq/tare/front/conf"
)

const (
	// maxServers limits the addresses of a group, and maxAddresses those of a name.
	maxServers   = 4096
	maxAddresses = 64

	defaultFailTimeout = 10 * time.Second
)

// ErrNone is returned when no server is available: all are down, resting, at their limit, or were
// tried.
var ErrNone = errors.New("no live upstreams")

// Group chooses servers as Config defines. It is safe for concurrent use, and must be closed.
type Group struct {
	config     conf.Upstream
	state      *State
	names      names
	balance    balancer
	key        conf.Text // the text by which balance chooses; "" if there is none
	usesClient bool      // balance chooses by the client's address
	slowStarts bool      // a server has slow_start, and balance respects it

	// state.mu guards the peers; the lists themselves are replaced, not changed.
	primary, backup *list
	rebuilding      sync.Mutex // held while the lists are replaced
}

// New makes a group. It resolves the names of servers, and again until Close. It does not wait for
// names with Resolve: see Await. It fails if the Config is invalid, or if a name without Resolve
// cannot be resolved.
func New(config conf.Upstream, state *State, o Options) (*Group, error) {
	config.Servers = slices.Clone(config.Servers)
	g := &Group{config: config, state: state}
	for i := range g.config.Servers {
		if err := checkServer(&g.config.Servers[i]); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(config.Servers, func(s conf.Server) bool { return !s.Backup }) {
		return nil, errors.New("no servers, or only backups")
	}
	var err error
	if err = g.setBalance(); err != nil {
		return nil, err
	}
	if err = g.names.begin(g, o); err == nil {
		err = g.rebuild()
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	g.names.watch()
	return g, nil
}

// checkServer validates a server and sets its defaults.
func checkServer(s *conf.Server) error {
	switch {
	case s.Weight < 0:
		return fmt.Errorf("server %q: invalid weight %d (minimum: 1)", s.Addr, s.Weight)
	case s.MaxConns < 0:
		return fmt.Errorf("server %q: invalid max_conns %d (minimum: 1; 0 is no limit)", s.Addr, s.MaxConns)
	case s.FailTimeout < 0, s.SlowStart < 0:
		return fmt.Errorf("server %q: negative fail_timeout or slow_start", s.Addr)
	case s.Addr == "":
		return errors.New("server without an address")
	}
	s.Weight, s.MaxFails = cmp.Or(s.Weight, 1), cmp.Or(s.MaxFails, 1)
	s.FailTimeout = cmp.Or(s.FailTimeout, defaultFailTimeout)
	return nil
}

// Close closes the group. Turns that have begun may still call Done.
func (g *Group) Close() {
	if !g.names.end() {
		return
	}
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	g.names.release()
	g.primary.release(g.state)
	g.backup.release(g.state)
}

// Turn starts to choose servers for a request. key is the value of the method's key, client the
// address for a method that uses it.
func (g *Group) Turn(key string, client netip.Addr) Turn {
	return Turn{group: g, key: key, client: client}
}

// Key returns the text by which the method chooses; "" if it has none.
func (g *Group) Key() conf.Text { return g.key }

// UsesClient reports whether the method chooses by the client's address.
func (g *Group) UsesClient() bool { return g.usesClient }

// Config returns the group's Config, which must not be changed.
func (g *Group) Config() *conf.Upstream { return &g.config }
