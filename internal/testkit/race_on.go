//go:build race

package testkit

// Race reports whether the race detector is enabled. It allocates, and makes sync.Pool drop items,
// so tests that count allocations skip it.
const Race = true
