package upstream

import (
	"fmt"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// list is a list of servers with the data of the load balancing methods.
type list struct {
	peers   []peer
	members []member // of peers
	total   int      // total weight
	single  bool     // there is no other server: failures do not matter
	owners  []int    // the indexes of peers' servers in the configuration
}

// member is the part of a peer that load balancing does not need.
type member struct {
	server *conf.Server
	owner  int // the index of server
	addr   string
	known  string // the key of its health
	health *health
}

// rebuild makes the lists of the current addresses. The state of peers and addresses is kept.
func (g *Group) rebuild() error {
	g.rebuilding.Lock()
	defer g.rebuilding.Unlock()
	var primary, backup []member
	for i := range g.config.Servers {
		s := &g.config.Servers[i]
		for _, addr := range g.names.addresses(i) {
			if m := (member{server: s, owner: i, addr: addr}); s.Backup {
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
	g.primary, g.backup = newList(primary, g.primary, g.state, same), newList(backup, g.backup, g.state, same)
	g.primary.single = len(primary) == 1 && len(backup) == 0
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
		l.owners[i] = m.owner
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

// isOut reports whether a server is unavailable.
func (l *list) isOut(i int, now time.Time) bool {
	m := &l.members[i]
	return m.server.Down || m.server.MaxConns > 0 && m.health.conns >= m.server.MaxConns ||
		!l.single && m.health.resting(m.server.MaxFails, m.server.FailTimeout, now)
}
