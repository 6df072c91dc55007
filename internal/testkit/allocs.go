package testkit

import "testing"

// Allocs is testing.AllocsPerRun, with the least result of several measurements. The runtime counts
// the allocations of all goroutines: what an earlier test has left disturbs only some measurements.
func Allocs(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for range 4 {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
