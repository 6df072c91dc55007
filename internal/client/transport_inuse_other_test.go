//go:build !linux

package client_test

import "runtime"

// inUse counts goroutines.
func inUse() int { return runtime.NumGoroutine() }
