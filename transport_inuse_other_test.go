//go:build !linux

package tare_test

import "runtime"

// inUse counts goroutines.
func inUse() int { return runtime.NumGoroutine() }
