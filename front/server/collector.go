package server

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// spareHeap is how much a server allocates at least before the collector runs again. With 2 MB
	// in use, it would run after every 2,500 requests of a bound handler, which take 5.2 % more CPU
	// time (4.5 to 5.8).
	spareHeap = 16 << 20
	// usualPercent is Go's default of GOGC.
	usualPercent = 100
)

// collector sets GOGC, after each run of Go's collector, for a heap that is small.
type collector struct {
	mu      sync.Mutex
	percent int // what it has set
	hasLeft bool
}

// adapt sets GOGC by what is in use. If the program has changed GOGC itself, it applies from then on.
func (c *collector) adapt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasLeft {
		return
	}
	used := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(used)
	percent := max(usualPercent, usualPercent*spareHeap/max(int(used[0].Value.Uint64()), 1<<20))
	if change := percent - c.percent; max(change, -change) > c.percent/8 && !c.set(percent) {
		return
	}
	runtime.AddCleanup(new(garbage), (*collector).adapt, c)
}

// garbage is found by the next run of the collector. It is too large to share its memory.
type garbage struct{ _ [4]*int }

// set sets GOGC, and reports whether nobody else has.
func (c *collector) set(percent int) bool {
	if was := debug.SetGCPercent(percent); was != c.percent {
		debug.SetGCPercent(was)
		c.hasLeft = true
	}
	c.percent = percent
	return !c.hasLeft
}

// leave ends what relaxCollector began.
func (c *collector) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasLeft {
		c.set(usualPercent)
		c.hasLeft = true
	}
}

// relaxCollector makes the collector run less often while the heap is small, until leave is called.
// Settings of the program or of its user remain: GOGC, GOMEMLIMIT and what sets them.
func relaxCollector() (leave func()) {
	c := &collector{percent: usualPercent}
	c.hasLeft = os.Getenv("GOGC") != "" || debug.SetMemoryLimit(-1) != math.MaxInt64
	c.adapt()
	return c.leave
}
