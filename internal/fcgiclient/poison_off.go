//go:build !poison

package fcgiclient

// poison does nothing in this build.
func poison([]byte) {}
