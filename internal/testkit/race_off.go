//go:build !race

package testkit

// Race is whether the race detector watches. It allocates, and its pools lose some of what they are given: what a test
// counts of allocations, it counts without.
const Race = false
