// Package upstream chooses the server of a group for each request, and records failures.
//
// Words of this package:
//
//   - peer: a server at one address; a name with several addresses is several peers.
//   - turn: the choice of servers for one request, a different one for each attempt.
//   - resting: unavailable after too many failures, until the next trial request.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	// maxRing limits the total weight of a group with ConsistentHash.
	maxRing = 16_384

	defaultFailTimeout = 10 * time.Second
)

// ErrNone is returned when no server is available: all are down, resting, at their limit, or were
// tried.
var ErrNone = errors.New("no live upstreams")

// Group chooses servers as Config defines. It is safe for concurrent use, and must be closed.
type Group struct {
	config conf.Upstream
	state  *State
	names  resolver

	// state.mu guards the peers; the lists themselves are replaced, not changed.
	primary, backup *list

	stop    context.CancelFunc // stops resolving names
	stopped sync.WaitGroup
}

// list is a list of servers with the data of the load balancing methods.
type list struct {
	peers   []peer
	members []member // of peers
	total   int      // total weight
	single  bool     // there is no other server: failures do not matter
	points  []point  // of the ring
	owners  []int    // the owners of peers' points
}

// member is the part of a peer that load balancing does not need.
type member struct {
	server *conf.Server
	addr   string
	known  string // the key of its health
	health *health
}

// New makes a group. It resolves the names of servers, and again every 30 seconds until Close. It
// fails if a name cannot be resolved, or if the Config is invalid. A nil lookup is the system's
// resolver.
func New(config conf.Upstream, state *State, lookup Lookup) (*Group, error) {
	config.Servers = slices.Clone(config.Servers)
	g := &Group{config: config, state: state, stop: func() {}}
	for i := range g.config.Servers {
		if err := checkServer(&g.config.Servers[i], config.Balance); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(config.Servers, func(s conf.Server) bool { return !s.Backup }) {
		return nil, errors.New("no servers, or only backups")
	}
	if err := g.names.begin(g.config.Servers, lookup); err != nil {
		return nil, err
	}
	if err := g.rebuild(); err != nil {
		return nil, err
	}
	if g.names.any() {
		ctx, cancel := context.WithCancel(context.Background())
		g.stop = cancel
		g.stopped.Go(func() { g.watch(ctx) })
	}
	return g, nil
}

// checkServer validates a server and sets its defaults.
func checkServer(s *conf.Server, b conf.Balance) error {
	switch {
	case s.Weight < 0:
		return fmt.Errorf("server %q: invalid weight %d (minimum: 1)", s.Addr, s.Weight)
	case s.MaxConns < 0:
		return fmt.Errorf("server %q: invalid max_conns %d (minimum: 1; 0 is no limit)", s.Addr, s.MaxConns)
	case s.FailTimeout < 0:
		return fmt.Errorf("server %q: negative fail_timeout", s.Addr)
	case s.Backup && b != conf.RoundRobin && b != conf.LeastConn:
		return fmt.Errorf("server %q: backup is not supported by this load balancing method", s.Addr)
	}
	if s.Weight == 0 {
		s.Weight = 1
	}
	if s.FailTimeout == 0 {
		s.FailTimeout = defaultFailTimeout
	}
	if s.MaxFails == 0 {
		s.MaxFails = 1
	}
	if s.Addr == "" {
		return errors.New("server without an address")
	}
	return nil
}

// rebuild makes the lists of the current addresses. The state of peers and addresses is kept.
func (g *Group) rebuild() error {
	var primary, backup []member
	for i := range g.config.Servers {
		s := &g.config.Servers[i]
		for _, addr := range g.names.addresses(i) {
			if m := (member{server: s, addr: addr}); s.Backup {
				backup = append(backup, m)
			} else {
				primary = append(primary, m)
			}
		}
	}
	if n := len(primary) + len(backup); n > maxServers {
		return fmt.Errorf("%d servers (maximum: %d)", n, maxServers)
	}
	points, err := g.ring()
	if err != nil {
		return err
	}
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	old := []*list{g.primary, g.backup}
	same := make(map[string]int)
	g.primary, g.backup = newList(primary, g.primary, g.state, same), newList(backup, g.backup, g.state, same)
	g.primary.single = len(primary) == 1 && len(backup) == 0
	g.primary.points = points
	for _, l := range old {
		l.release(g.state)
	}
	return nil
}

// newList makes a list that takes over the state of an older one. same counts addresses: an address
// that occurs twice is two servers, so that the second is tried after the first has failed. The
// caller holds the state's mu.
func newList(members []member, old *list, s *State, same map[string]int) *list {
	l := &list{members: members, peers: make([]peer, len(members)), owners: make([]int, len(members))}
	names := make(map[*conf.Server]int)
	for i := range members {
		m := &members[i]
		m.known = m.addr
		if same[m.addr]++; same[m.addr] > 1 {
			m.known = fmt.Sprint(m.addr, " ", same[m.addr])
		}
		m.health = s.acquire(m.known)
		p := &l.peers[i]
		p.weight, p.effective = m.server.Weight, m.server.Weight
		if was := old.find(m); was != nil {
			p.effective, p.current = was.effective, was.current
		}
		l.total += p.weight
		if _, ok := names[m.server]; !ok {
			names[m.server] = len(names)
		}
		l.owners[i] = names[m.server]
	}
	return l
}

// find returns the peer with the same server and address.
func (l *list) find(m *member) *peer {
	if l == nil {
		return nil
	}
	for i := range l.members {
		if o := &l.members[i]; o.server == m.server && o.addr == m.addr {
			return &l.peers[i]
		}
	}
	return nil
}

// release releases the list's references to the state. The caller holds mu.
func (l *list) release(s *State) {
	if l == nil {
		return
	}
	for i := range l.members {
		s.release(l.members[i].known, l.members[i].health)
	}
}

// ring returns the points of the group's servers.
func (g *Group) ring() ([]point, error) {
	if g.config.Balance != conf.ConsistentHash {
		return nil, nil
	}
	var names []string
	var weights []int
	total := 0
	for i := range g.config.Servers {
		s := &g.config.Servers[i]
		names, weights = append(names, s.Addr), append(weights, s.Weight)
		if total += s.Weight; total > maxRing {
			return nil, fmt.Errorf("the total weight of a consistent hash is greater than %d", maxRing)
		}
	}
	return ring(names, weights), nil
}

// Close closes the group. Turns that have begun may still call Done.
func (g *Group) Close() {
	g.stop()
	g.stopped.Wait()
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	g.primary.release(g.state)
	g.backup.release(g.state)
}

// Turn starts to choose servers for a request. key is the key of Hash, client the address for
// IPHash.
func (g *Group) Turn(key string, client netip.Addr) Turn {
	return Turn{group: g, key: key, client: client}
}

// Turn chooses servers for one request, a different one for each attempt. It must not be used
// concurrently.
type Turn struct {
	group  *Group
	key    string
	client netip.Addr

	list   *list
	backup bool   // list is that of the backups, perhaps from before a change
	tried  []bool // indexes of list; nil before the first attempt
	last   int    // the index of the last peer
	walk   walk
}

// Next returns the address of a server that was not tried: a host and port, or a unix socket's
// path. Each successful call must be followed by Done. If there is none, Next returns ErrNone.
func (t *Turn) Next() (addr string, err error) {
	g, s := t.group, t.group.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.list == nil {
		t.list = g.primary
	} else {
		t.markTried()
	}
	var now time.Time
	if !t.list.single { // a single server needs no clock
		now = time.Now()
	}
	i := t.choose(now)
	if i < 0 && !t.backup && len(g.backup.peers) > 0 {
		t.list, t.backup, t.tried, t.walk = g.backup, true, nil, walk{}
		i = t.choose(now)
	}
	if i < 0 {
		return "", ErrNone
	}
	t.last = i
	m := &t.list.members[i]
	m.health.begin(m.server.FailTimeout, now)
	return m.addr, nil
}

// markTried marks the last peer as tried.
func (t *Turn) markTried() {
	if t.tried == nil {
		t.tried = make([]bool, len(t.list.peers))
	}
	t.tried[t.last] = true
}

// choose returns the index of a peer, or -1.
func (t *Turn) choose(now time.Time) int {
	l := t.list
	for i := range l.peers {
		p := &l.peers[i]
		p.conns = l.members[i].health.conns
		p.out = t.tried != nil && t.tried[i] || l.isOut(i, now)
	}
	i := -1
	switch c := &t.group.config; {
	case len(l.peers) < 2:
	case c.Balance == conf.LeastConn:
		return leastConn(l.peers)
	case c.Balance == conf.IPHash:
		i = t.walk.byIP(l.peers, l.total, t.client)
	case c.Balance == conf.Hash && t.key != "":
		i = t.walk.byKey(l.peers, l.total, t.key)
	case c.Balance == conf.ConsistentHash && t.key != "":
		i = t.walk.onRing(l.peers, l.points, l.owners, t.key)
	case c.Balance == conf.Random:
		i = t.walk.byChance(l.peers, l.total, rand.IntN)
	case c.Balance == conf.RandomTwo:
		i = t.walk.bestOfTwo(l.peers, l.total, rand.IntN)
	}
	if i < 0 {
		i = smooth(l.peers)
	}
	return i
}

// More reports whether Next would find another server.
func (t *Turn) More() bool {
	s := t.group.state
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	lists := []*list{t.list}
	if !t.backup {
		lists = append(lists, t.group.backup)
	}
	for n, l := range lists {
		for i := range l.peers {
			tried := n == 0 && (i == t.last || t.tried != nil && t.tried[i])
			if !tried && !l.isOut(i, now) {
				return true
			}
		}
	}
	return false
}

// isOut reports whether a server is unavailable.
func (l *list) isOut(i int, now time.Time) bool {
	m := &l.members[i]
	return m.server.Down || m.server.MaxConns > 0 && m.health.conns >= m.server.MaxConns ||
		!l.single && m.health.resting(m.server.MaxFails, m.server.FailTimeout, now)
}

// Done ends the attempt on the server that Next returned last. failed reports a failure of the
// server; a client that has closed its connection is none.
func (t *Turn) Done(failed bool) {
	s := t.group.state
	s.mu.Lock()
	defer s.mu.Unlock()
	p, m := &t.list.peers[t.last], &t.list.members[t.last]
	m.health.conns--
	switch {
	case t.list.single:
	case !failed:
		m.health.succeed()
	default:
		m.health.fail(time.Now())
		if m.server.MaxFails > 0 {
			p.effective = max(0, p.effective-p.weight/m.server.MaxFails)
		}
	}
}

// Config returns the group's Config, which must not be changed.
func (g *Group) Config() *conf.Upstream { return &g.config }
