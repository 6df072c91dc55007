package testkit

import (
	"runtime"
	"testing"
)

// Allocs is testing.AllocsPerRun, with the least result of several measurements. The runtime counts
// the allocations of all goroutines: what an earlier test has left disturbs only some measurements.
func Allocs(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for range 4 {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}

// InUse returns how many bytes of the heap and of stacks are in use, without garbage.
func InUse() uint64 {
	runtime.GC()
	runtime.GC() // twice, because of what pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
