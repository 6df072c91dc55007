// Package reuse keeps goroutines that have finished their work, because their stacks and buffers
// are worth keeping, and removes what a handler has left behind in them.
package reuse
