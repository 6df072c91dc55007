//go:build !poison

package front

// poisons is whether memory that is given back is never used again, or wrong.
const poisons = false

// poison does nothing in this build.
func poison([]byte) {}
