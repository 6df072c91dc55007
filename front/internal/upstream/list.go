package upstream

import (
	"cmp"
	"crypto/md5" //nolint:gosec // it only names servers, as in nginx
	"encoding/hex"
	"fmt"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// list is a list of servers with the data of the load balancing methods.
type list struct {
	state   *State
	peers   []peer
	members []member // of peers
	total   int      // total weight
	single  bool     // there is no other server: failures do not matter
}

// member is the part of a peer that load balancing does not need.
type member struct {
	server *conf.Server
	owner  int // the index of server
	addr   string
	known  string // the key of its health
	route  string // its name for sticky clients; "" if there are none
	health *health
}

// slowUnit is what a weight of 1 becomes in a group with slow_start, so that parts of it exist.
const slowUnit = 100

// rebuild makes the lists of the current addresses. The state of peers and addresses is kept.
func (g *Group) rebuild() error {
	g.rebuilding.Lock()
	defer g.rebuilding.Unlock()
	var primary, backup []member
	for i := range g.config.Servers {
		s := &g.config.Servers[i]
		for _, addr := range g.names.addresses(i) {
			m := member{server: s, owner: i, addr: addr}
			if g.config.Sticky != nil {
				sum := md5.Sum([]byte(addr)) //nolint:gosec // it only names servers, as in nginx
				m.route = cmp.Or(s.Route, hex.EncodeToString(sum[:]))
			}
			if s.Backup {
				backup = append(backup, m)
			} else {
				primary = append(primary, m)
			}
		}
	}
	if n := len(primary) + len(backup); n > maxServers {
		return fmt.Errorf("%d servers (maximum: %d)", n, maxServers)
	}
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	old := []*list{g.primary, g.backup}
	same := make(map[string]int)
	g.primary, g.backup = g.newList(primary, g.primary, same), g.newList(backup, g.backup, same)
	g.primary.single = len(primary) == 1 && len(backup) == 0
	for _, l := range old {
		l.release(g.state)
	}
	return nil
}

// newList makes a list that takes over the state of an older one. same counts addresses: an address
// that occurs twice is two servers, so that the second is tried after the first has failed. The
// caller holds the state's mu.
func (g *Group) newList(members []member, old *list, same map[string]int) *list {
	unit := 1
	if g.slowStarts {
		unit = slowUnit
	}
	l := &list{state: g.state, members: members, peers: make([]peer, len(members))}
	for i := range members {
		m := &members[i]
		m.known = m.addr
		if same[m.addr]++; same[m.addr] > 1 {
			m.known = fmt.Sprint(m.addr, " ", same[m.addr])
		}
		m.health = g.state.known.acquire(m.known)
		p := &l.peers[i]
		p.step, p.weight, p.effective = unit, m.server.Weight*unit, m.server.Weight*unit
		if was := old.find(m); was != nil {
			p.effective, p.current = was.effective, was.current
		}
		l.total += p.weight
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
		s.known.release(l.members[i].known)
	}
}

// startSlowly sets the weight of a server that has become available again, and after that its
// nominal weight.
func (l *list) startSlowly(i int, now time.Time) {
	p, m := &l.peers[i], &l.members[i]
	nominal := m.server.Weight * p.step
	if p.weight = nominal; m.server.SlowStart > 0 && !l.single {
		if age := now.Sub(m.health.recovered); age < m.server.SlowStart {
			p.weight = max(1, int(float64(nominal)*float64(age)/float64(m.server.SlowStart)))
		}
	}
	p.effective = min(p.effective, p.weight)
}

// isOut reports whether a server is unavailable: it was tried, is down or at its limit, has failed a
// Check, or rests after failures. tried may be nil.
func (l *list) isOut(i int, tried []bool, includesResting bool, now time.Time) bool {
	m := &l.members[i]
	return tried != nil && tried[i] || m.server.Down || len(l.state.bad) > 0 && l.state.bad[m.addr] > 0 ||
		m.server.MaxConns > 0 && m.health.conns >= m.server.MaxConns || !includesResting && l.rests(m, now)
}

// rests reports whether a server rests after failures.
func (l *list) rests(m *member, now time.Time) bool {
	return !l.single && m.health.resting(m.server.MaxFails, m.server.FailTimeout, now)
}
