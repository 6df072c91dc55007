//go:build !unix

package interrupt

import "os"

// raise ends the process, as the Go runtime does at a signal: this system cannot send one.
func raise(os.Signal) { os.Exit(2) }
