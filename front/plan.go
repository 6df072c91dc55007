package front

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// plan is a compiled Config. It never changes, except for the number of its users.
type plan struct {
	handler http.Handler // whose plan it is
	modules []module
	options *options
	state   *state
	hosts   addressTable[hostGroup]
	slots   int     // number of variables with slots
	product string  // the name and version in error pages
	needs   needs   // what exchanges collect
	counts  *counts // nil if nothing shows counts

	parts []any // what modules keep of the Config

	countedHosts []countedHost
	measures     []func(*exposition) // add metrics to a page

	users    atomic.Int64 // exchanges, and 1 until the plan is retired
	release  sync.Once
	releases []func() // release what the plan has acquired from the state
	prepares []func() // apply the plan to shared state, before it is in use
	commits  []func() // likewise, once it is in use
	retires  []func() // end what only the plan in use does
	// expired is done when another plan has been in use for ShutdownTimeout, or after Abort. It ends
	// what exchanges of this plan have begun.
	expired         context.Context
	expire          context.CancelFunc
	shutdownTimeout time.Duration
}

// prepare applies the plan to the state that it shares, as far as its first request depends on
// that.
func (p *plan) prepare() {
	for _, f := range p.prepares {
		f()
	}
}

// commit applies the rest of the plan to the state that it shares.
func (p *plan) commit() {
	for _, f := range p.commits {
		f()
	}
}

// retire releases the plan after its last exchange.
func (p *plan) retire() {
	for _, f := range p.retires {
		f()
	}
	p.leave()
}

// leave ends a use of the plan.
func (p *plan) leave() {
	if p.users.Add(-1) == 0 {
		p.release.Do(func() {
			for _, f := range p.releases {
				f()
			}
			p.state.plans.Done()
		})
	}
}

// planPart returns what a module keeps of the Config, or the zero value.
func planPart[T any](p *plan) (part T) {
	for _, any := range p.parts {
		if found, ok := any.(T); ok {
			return found
		}
	}
	return part
}
