package engine

import (
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// The collector lets the heap grow to twice its live size before it runs. TLS handshakes allocate
// much, and nearly all of it is garbage soon. If thousands of clients connect and then wait, the
// process keeps twice the memory of their connections. Nothing allocates any more: the collector
// does not run for two minutes, and the runtime returns little to the system even then.
//
// The trimmer waits for a moment of rest after many handshakes. Then it runs the collector once and
// returns free memory. It sleeps until then: a collection wakes it, because many handshakes make
// the collector run. These are its states:
//
//	asleep ──collection after many handshakes──▶ waiting
//	waiting ──handshakes or collections within restTime──▶ waiting
//	waiting ──rest──▶ asleep, trimmed unless the heap is large
//
// Where there is no reserve, nothing is trimmed.
const (
	// leastHandshakes is how many handshakes must have been completed since the last time.
	leastHandshakes = 500
	// restTime is for how long nothing may have happened.
	restTime = 500 * time.Millisecond
	// heapPerHandshake is how much heap may be collected and returned for each handshake. That
	// takes about 20 µs, a handshake more than 300.
	heapPerHandshake = 64 << 10
)

// trimmer is guarded by the mutex of its reserve.
type trimmer struct {
	handshakes *atomic.Int64 // completed ones
	trimmed    int64         // how many of them before the last time
	isWaiting  bool

	// What there was when the trimmer has last looked.
	lastHandshakes int64
	lastCollected  time.Time
}

// mayWait reports whether the trimmer, which sleeps, must begin to wait after a collection.
func (t *trimmer) mayWait() bool {
	return !t.isWaiting && t.handshakes != nil && t.handshakes.Load()-t.trimmed >= leastHandshakes
}

// look reports whether nothing has happened since the last call. collected is when the last
// collection was.
func (t *trimmer) look(collected time.Time) (rests bool) {
	n := t.handshakes.Load()
	rests = n == t.lastHandshakes && collected.Equal(t.lastCollected)
	t.lastHandshakes, t.lastCollected = n, collected
	return rests
}

// pays reports whether the handshakes since the last time have cost far more than trimming a heap
// of a size in bytes.
func (t *trimmer) pays(heap uint64) bool {
	return heap <= uint64(t.lastHandshakes-t.trimmed)*heapPerHandshake
}

// awaitRest makes the trimmer wait. Its caller holds mu.
func (r *reserve) awaitRest() {
	r.trimmer.look(r.last)
	r.trimmer.isWaiting = true
	time.AfterFunc(restTime, func() {
		if r.mayTrim() {
			debug.FreeOSMemory()
		}
	})
}

// mayTrim reports whether the heap must be trimmed now.
func (r *reserve) mayTrim() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.trimmer
	t.isWaiting = false
	switch {
	case r.users == 0 || !collectorHasDefaults():
		return false
	case !t.look(r.last):
		r.awaitRest()
		return false
	case !t.pays(heapInMemory()):
		return false // later handshakes may pay for it
	}
	t.trimmed = t.lastHandshakes
	r.drop()
	return true
}

// heapInMemory returns how much memory the heap has from the system.
func heapInMemory() (n uint64) {
	parts := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(parts)
	for _, part := range parts {
		if part.Value.Kind() == metrics.KindUint64 {
			n += part.Value.Uint64()
		}
	}
	return n
}
