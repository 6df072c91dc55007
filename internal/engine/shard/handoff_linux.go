package shard

import (
	"runtime"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/predict"
)

// handOff gives k and its current request to another runner.
func (r *runner) handOff(k *shardConn, x *exchange.Exchange, at predict.SlotID) {
	r.handOffs++
	r.shard.runners.Run(job{conn: k, request: x, slot: at})
}

// now returns the time, or for a leader the time when the loop reported what it serves. Reading the
// clock for each request would cost a hundredth of a small request, and a runner that leads is not
// late.
func (r *runner) now() instant {
	if r.leads() {
		return r.reportedAt
	}
	return r.shard.group.now()
}

// startHandOffs yields to the runners that have received requests. It reports whether the runner
// still leads.
func (r *runner) startHandOffs() bool {
	r.handOffs = 0
	if !r.sendOutbox() {
		return false
	}
	runtime.Gosched()
	return true
}

// giveUpLead is called before a call that may block. If a handler on a loop makes it, another
// runner takes the loop.
func (r *runner) giveUpLead() {
	if r.token != 0 {
		r.shard.takeLead(r.token)
	}
}
