package front

import (
	"sync"
	"sync/atomic"

	"github.com/tarehq/tare/front/cache"
)

// plan is a Config that was compiled. But for the number of its users it never changes.
type plan struct {
	handler        *Handler
	options        *options
	state          *state
	hosts          hosts
	slots          int    // of variables
	product        string // the name and version that error pages give
	needsStartTime bool   // somebody asks when requests began
	needsAttempts  bool   // somebody asks which servers were asked
	// countsRequests says that something depends on how many requests a connection has had.
	countsRequests bool
	// readsBodies says that somebody asks for requests' bodies: they are received though they may not be passed on.
	readsBodies bool
	counts      *counts // nil if nobody asks for them

	caches map[string]*cache.Cache // by name
	groups map[string]*group       // of servers, by name in lower case or address

	countedHosts []countedHost
	cacheCounts  map[string]*cacheCounts // by the cache's name
	measures     []func(*exposition)     // add what Metrics show

	users    atomic.Int64 // exchanges, and one until it is retired
	release  sync.Once
	releases []func() // of state that it shares
	commits  []func() // change state that it shares, once it is in use
	released chan struct{}
}

// commit makes the state that the plan shares what it says.
func (p *plan) commit() {
	for _, f := range p.commits {
		f()
	}
}

// retire has the plan released once its last exchange has ended.
func (p *plan) retire() { p.leave() }

// leave ends an exchange's use of the plan.
func (p *plan) leave() {
	if p.users.Add(-1) == 0 {
		p.release.Do(func() {
			for _, f := range p.releases {
				f()
			}
			close(p.released)
		})
	}
}
