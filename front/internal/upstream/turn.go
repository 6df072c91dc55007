package upstream

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// Turn chooses servers for one request, a different one for each attempt. It must not be used
// concurrently.
type Turn struct {
	group  *Group
	key    string
	client netip.Addr
	route  string // of the server to prefer; "" for none

	list   *list
	backup bool      // list is that of the backups, perhaps from before a change
	tried  []bool    // indexes of list; nil before the first attempt
	last   int       // the index of the last peer
	now    time.Time // of the last choice; a single server has none
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
	if !t.list.single { // otherwise a single server needs no clock
		t.now = time.Now()
	}
	i := t.choose()
	if i < 0 && !t.backup && len(g.backup.peers) > 0 {
		t.list, t.backup, t.tried, t.walk = g.backup, true, nil, walk{}
		i = t.choose()
	}
	if t.last = i; i < 0 {
		return "", ErrNone
	}
	m := &t.list.members[i]
	m.health.begin(m.server.FailTimeout, t.now)
	return m.addr, nil
}

// Prefer makes the turn choose the server with a route, if that is available. It is called before
// the first Next.
func (t *Turn) Prefer(route string) { t.route = route }

// Route returns the route of the server that Next returned last.
func (t *Turn) Route() string {
	if t.list == nil || t.last < 0 {
		return ""
	}
	return t.list.members[t.last].route
}

func (t *Turn) markTried() {
	if t.tried == nil {
		t.tried = make([]bool, len(t.list.peers))
	}
	if t.last >= 0 {
		t.tried[t.last] = true
	}
}

// choose returns the index of a peer, or -1. A group on demand also has requests try servers that
// rest after failures, if there are no others: its addresses may be the first ones of a container
// that is starting. nginx makes such a group for each request, without a memory of failures.
func (t *Turn) choose() int {
	i := t.chooseBut(false)
	if i < 0 && t.group.names.options.OnDemand {
		i = t.chooseBut(true)
	}
	return i
}

// chooseBut chooses among the servers that do not rest, or among all.
func (t *Turn) chooseBut(includesResting bool) int {
	l := t.list
	for i := range l.peers {
		p := &l.peers[i]
		p.conns = l.members[i].health.conns
		p.out = l.isOut(i, t.tried, includesResting, t.now)
		if t.group.slowStarts {
			l.startSlowly(i, t.now)
		}
	}
	if t.route != "" {
		i := slices.IndexFunc(l.members, func(m member) bool { return m.route == t.route })
		if i >= 0 && !l.peers[i].out {
			return i
		}
	}
	for i := range l.peers {
		l.peers[i].out = l.peers[i].out || l.members[i].server.Drain
	}
	if len(l.peers) > 1 {
		if i := t.group.balance(t); i >= 0 {
			return i
		}
	}
	return smooth(l.peers)
}

// More reports whether Next would find another server.
func (t *Turn) More() bool {
	s := t.group.state
	s.mu.Lock()
	defer s.mu.Unlock()
	t.markTried()
	return t.hasOther(t.list, t.tried) || !t.backup && t.hasOther(t.group.backup, nil)
}

func (t *Turn) hasOther(l *list, tried []bool) bool {
	now := time.Now()
	for i := range l.peers {
		if !l.isOut(i, tried, t.group.names.options.OnDemand, now) && !l.members[i].server.Drain {
			return true
		}
	}
	return false
}

// HasUntried reports whether the group has more servers than were tried: the others are unavailable
// now. Those that are down by the configuration do not count.
func (t *Turn) HasUntried(tried int) bool {
	s := t.group.state
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, l := range []*list{t.group.primary, t.group.backup} {
		for i := range l.members {
			if m := &l.members[i]; !m.server.Down && !m.server.Drain {
				n++
			}
		}
	}
	return n > tried
}

// Refresh resolves names with Resolve again after servers have failed, and reports whether Next has
// new addresses to try. It waits no longer than refreshTime.
func (t *Turn) Refresh(ctx context.Context) bool {
	g := t.group
	if t.backup || !g.names.follows {
		return false
	}
	g.names.refresh(ctx)
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	if t.list == nil || t.list == g.primary {
		return t.list == nil
	}
	t.markTried()
	tried := make([]bool, len(g.primary.members))
	for i := range t.list.members {
		if !t.tried[i] {
			continue
		}
		for k := range g.primary.members {
			tried[k] = tried[k] || g.primary.members[k].addr == t.list.members[i].addr
		}
	}
	t.list, t.tried, t.last, t.walk = g.primary, tried, -1, walk{}
	return slices.Contains(tried, false)
}

// Done ends the attempt on the server that Next returned last. failed reports a failure of the
// server; a client that closes its connection is not one. Done reports whether the failure makes the
// server unavailable.
func (t *Turn) Done(failed bool) (makesUnavailable bool) {
	s := t.group.state
	s.mu.Lock()
	defer s.mu.Unlock()
	p, m := &t.list.peers[t.last], &t.list.members[t.last]
	m.health.conns--
	switch {
	case t.list.single:
	case !failed:
		m.health.succeed(m.server.MaxFails, t.now)
	default:
		m.health.fail(time.Now())
		if m.server.MaxFails > 0 {
			p.effective = max(0, p.effective-p.weight/m.server.MaxFails)
			return m.health.fails >= m.server.MaxFails
		}
	}
	return false
}
