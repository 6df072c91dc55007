//go:build !poison

package front

// poisons: memory of free lists is never reused, or overwritten first.
const poisons = false

// poison does nothing in this build.
func poison([]byte) {}
