package server

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

// spareHeap is memory that nothing uses or touches, so that it costs address space only. By default
// Go's collector runs when the heap has doubled, and this counts: with 2 MB in use it would run
// after every 2,500 requests of a bound handler.
const spareHeap = 16 << 20

// spareCollector makes Go's collector run seldom while the heap is small, until end is called. If
// the user has set GOGC, or there is a memory limit, it does nothing.
func spareCollector() (end func()) {
	if os.Getenv("GOGC") != "" || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return func() {}
	}
	spare := make([]byte, spareHeap)
	return func() { runtime.KeepAlive(spare) }
}
