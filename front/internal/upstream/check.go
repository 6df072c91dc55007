package upstream

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// maxProbes limits the probes of a Check at the same time.
	maxProbes = 64
	// maxCheckWait is how often a Check looks for new addresses.
	maxCheckWait = time.Second
)

// The state of a server under a Check:
//
//	new     it has not been checked; with Mandatory it gets no requests
//	passed  it gets requests
//	failed  it gets none
//
//	new    -> passed, failed   the first probe
//	passed -> failed           Fails failures in a row
//	failed -> passed           Passes successes in a row
//
// A server that several Checks concern gets requests unless one of them has failed.
//
// When a configuration replaces another one, its Checks take the states over by Begin, before its
// first request: with Mandatory no request reaches a new server. The earlier Checks finish probes,
// but no longer add or remove servers.

// CheckConfig configures a Check.
type CheckConfig struct {
	Key                   string // names the state that Checks of later configurations take over
	Interval, Jitter      time.Duration
	Fails, Passes         int
	Mandatory, Persistent bool
	// Probe checks the server at an address, as Next returns it. Its context ends with the Check.
	Probe func(ctx context.Context, addr string) error
	// Report is called if a server has failed, and with nil if it passes again.
	Report func(addr string, err error)
}

// Check checks the servers of a group until it is stopped.
type Check struct {
	group  *Group
	config CheckConfig
	shared *checkedServers

	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{}
	active  int // probes; the state's mu guards it
}

type checkedServers struct {
	current *Check // the last one that has begun: only it adds and removes servers
	servers map[string]*checkedServer
}

type checkedServer struct {
	isNew, isBad  bool
	inRow         int // results that contradict the state
	due           time.Time
	inProgress    bool
	total, failed int64
}

// NewCheck makes a Check, which must be stopped. Begin and then Start start it.
func (g *Group) NewCheck(c CheckConfig) *Check {
	s := g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := s.checks.acquire(c.Key)
	if shared.servers == nil {
		shared.servers = make(map[string]*checkedServer)
	}
	return &Check{group: g, config: c, shared: shared, stop: func() {}, wake: make(chan struct{}, 1)}
}

// Begin takes over the states of servers. Call it before the first request that the Check concerns.
func (c *Check) Begin() {
	s := c.group.state
	s.mu.Lock()
	defer s.mu.Unlock()
	c.shared.current = c
	if c.config.Mandatory && !c.config.Persistent {
		for addr, server := range c.shared.servers {
			s.setBad(addr, server, true)
			server.isNew, server.inRow, server.due = true, 0, time.Time{}
		}
	}
	c.findServers()
}

// Start starts the probes.
func (c *Check) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.running.Go(func() { c.run(ctx) })
}

// Stop ends checking, and waits for that.
func (c *Check) Stop() {
	c.stop()
	c.running.Wait()
	s := c.group.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checks.release(c.config.Key) {
		for addr, server := range c.shared.servers {
			s.setBad(addr, server, false)
		}
	}
}

// run starts probes when they are due.
func (c *Check) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.wake:
		}
		timer.Reset(c.startDue(ctx))
	}
}

// startDue starts the probes that are due, and returns the time until the next one.
func (c *Check) startDue(ctx context.Context) time.Duration {
	s := c.group.state
	s.mu.Lock()
	defer s.mu.Unlock()
	c.findServers()
	now, wait := time.Now(), maxCheckWait
	for addr, server := range c.shared.servers {
		left := server.due.Sub(now)
		switch {
		case server.inProgress:
		case left > 0:
			wait = min(wait, left)
		case c.active < maxProbes: // else the end of a probe wakes run
			c.active++
			server.inProgress = true
			c.running.Go(func() { c.probe(ctx, addr, server) })
		}
	}
	return wait
}

// findServers adds the servers of the group's addresses, and removes those that it no longer has.
// The caller holds mu.
func (c *Check) findServers() {
	if c.shared.current != c {
		return
	}
	s, present := c.group.state, make(map[string]bool)
	for _, l := range []*list{c.group.primary, c.group.backup} {
		for i := range l.members {
			m := &l.members[i]
			if m.server.Down {
				continue
			}
			present[m.addr] = true
			if c.shared.servers[m.addr] == nil {
				server := &checkedServer{isNew: true}
				c.shared.servers[m.addr] = server
				s.setBad(m.addr, server, c.config.Mandatory)
			}
		}
	}
	for addr, server := range c.shared.servers {
		if !present[addr] {
			s.setBad(addr, server, false)
			delete(c.shared.servers, addr)
		}
	}
}

func (c *Check) probe(ctx context.Context, addr string, server *checkedServer) {
	err := c.config.Probe(ctx, addr)
	s := c.group.state
	s.mu.Lock()
	c.active--
	server.inProgress = false
	if ctx.Err() != nil { // it has ended because of Stop
		s.mu.Unlock()
		return
	}
	now := time.Now()
	server.due = now.Add(c.config.Interval)
	if c.config.Jitter > 0 {
		server.due = server.due.Add(rand.N(c.config.Jitter))
	}
	isCurrent := c.shared.servers[addr] == server
	changed := isCurrent && c.count(addr, server, err != nil, now)
	s.mu.Unlock()
	if changed {
		c.config.Report(addr, err)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// count applies the result of a probe, and reports whether the state has changed in a way that
// should be known. The caller holds mu.
func (c *Check) count(addr string, server *checkedServer, failed bool, now time.Time) bool {
	s := c.group.state
	server.total++
	enough := c.config.Passes
	if failed {
		server.failed++
		enough = c.config.Fails
	}
	isDecisive := server.isNew && server.isBad // a server with Mandatory waits for its first result
	server.isNew = false
	if failed == server.isBad && !isDecisive {
		server.inRow = 0
		return false
	}
	if server.inRow++; server.inRow < enough && !isDecisive {
		return false
	}
	server.inRow = 0
	if s.setBad(addr, server, failed); !failed && s.known[addr] != nil {
		s.known[addr].value.recovered = now
	}
	return failed || !isDecisive
}

// setBad sets the state of a server under a Check. The caller holds mu.
func (s *State) setBad(addr string, server *checkedServer, isBad bool) {
	switch {
	case server.isBad == isBad:
		return
	case isBad:
		if s.bad == nil {
			s.bad = make(map[string]int)
		}
		s.bad[addr]++
	default:
		if s.bad[addr]--; s.bad[addr] == 0 {
			delete(s.bad, addr)
		}
	}
	server.isBad = isBad
}

// checked returns the sums of all Checks of a server. The caller holds mu.
func (s *State) checked(addr string) (total, failed int64) {
	for _, shared := range s.checks {
		if server := shared.value.servers[addr]; server != nil {
			total, failed = total+server.total, failed+server.failed
		}
	}
	return total, failed
}
