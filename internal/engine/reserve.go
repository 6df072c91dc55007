package engine

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// The collector runs when the heap has doubled. A server's heap is often so small that
// it does so fifty times a second and more, and each time it stops all processors twice
// and wakes those that have nothing to do. A reserve is memory that is allocated and never touched: the
// system gives no pages for it, but the collector counts it, and lets as much garbage
// again gather before it runs. So a busy server with a small heap spends up to maxReserve
// of memory on running the collector less often; beside a large heap the reserve is a
// trifle. With two processors and requests that cost nothing else that is worth a third
// of the time, and with 5000 connections on sockets a tenth. With one processor there
// is nothing to stop or to wake, and a larger heap misses the caches: 16 MB cost a handler with a front 7 % there, but
// 4 MB save it 4 to 6, and a plain one 1 to 9.
//
// It grows while the collector runs often and is dropped when it does not any more. The
// collector itself says when it has run, by a cleanup: a server that rests does nothing
// here. Who has set GOGC or GOMEMLIMIT has decided otherwise, and is left alone.
const (
	// maxReserve is what a server reserves at the most, in pieces that double; with one processor it is the first.
	maxReserve   = 16 << 20
	firstReserve = 4 << 20

	// reserveBelow and keepBelow are the times between two runs of the collector
	// below which the reserve grows and is kept.
	reserveBelow = 50 * time.Millisecond
	keepBelow    = 10 * time.Second
)

type reserve struct {
	mu     sync.Mutex
	users  int  // calls of Serve
	armed  bool // collected will be called
	last   time.Time
	pieces [][]byte
	size   int // of the pieces
}

// retain and release are called when a Serve begins and ends.
func (r *reserve) retain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users++; !r.armed && collectorIsUntuned() {
		r.arm()
	}
}

func (r *reserve) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users == 0 {
		r.drop()
	}
}

// arm has collected called when the collector has run.
func (r *reserve) arm() {
	r.armed = true
	sentinel := new([64]byte) // too large to share a block with something that lives on
	runtime.AddCleanup(sentinel, (*reserve).collected, r)
}

// collected is called after each run of the collector.
func (r *reserve) collected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == 0 || !collectorIsUntuned() {
		r.armed = false
		r.drop()
		return
	}
	r.note(time.Now(), mostReserved())
	r.arm()
}

// note decides what a run of the collector means for the reserve, which is at most that large.
func (r *reserve) note(now time.Time, most int) {
	since := now.Sub(r.last)
	r.last = now
	switch {
	case since > keepBelow, r.size > most:
		r.drop()
	case since < reserveBelow && r.size < most:
		piece := make([]byte, min(max(firstReserve, r.size), most-r.size))
		r.pieces = append(r.pieces, piece)
		r.size += len(piece)
	}
}

func (r *reserve) drop() { r.pieces, r.size = nil, 0 }

// mostReserved is how large a reserve helps with as many processors as there are now.
func mostReserved() int {
	if runtime.GOMAXPROCS(0) == 1 {
		return firstReserve
	}
	return maxReserve
}

// collectorIsUntuned reports whether the collector's settings are Go's own.
func collectorIsUntuned() bool {
	settings := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	metrics.Read(settings)
	for i, own := range []uint64{100, math.MaxInt64} {
		if v := settings[i].Value; v.Kind() != metrics.KindUint64 || v.Uint64() != own {
			return false
		}
	}
	return true
}
