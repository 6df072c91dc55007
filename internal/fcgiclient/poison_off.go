//go:build !poison

package fcgiclient

// poison does nothing without the tag poison.
func poison([]byte) {}
