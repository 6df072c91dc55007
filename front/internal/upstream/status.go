package upstream

import "time"

// Status is the current state of a server.
type Status struct {
	Addr    string
	Down    bool // as configured
	Resting bool // unavailable after too many failures
	Conns   int  // requests in progress
	Failed  bool // by a Check; before the first result, it may not get requests either
	// Checks is the number of Checks' results, FailedChecks that of failures among them.
	Checks, FailedChecks int64
}

// Status returns the state of all servers, with an entry for each address of a name.
func (g *Group) Status() []Status {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	now := time.Now()
	var all []Status
	for _, l := range []*list{g.primary, g.backup} {
		for i := range l.members {
			m := &l.members[i]
			total, failed := g.state.checked(m.addr)
			all = append(all, Status{
				Addr: m.addr, Down: m.server.Down, Conns: m.health.conns,
				Failed: g.state.bad[m.addr] > 0, Checks: total, FailedChecks: failed,
				Resting: l.rests(m, now),
			})
		}
	}
	return all
}
