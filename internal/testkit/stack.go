package testkit

import (
	"bytes"
	"runtime"
)

// RunsIn reports whether a function is in the caller's stack. This includes the function that has
// started its goroutine.
func RunsIn(function string) bool {
	stack := make([]byte, 64<<10)
	return bytes.Contains(stack[:runtime.Stack(stack, false)], []byte(function))
}
