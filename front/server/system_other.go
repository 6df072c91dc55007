//go:build !unix

package server

import "os"

const nonBlocking = 0

// notify does nothing: this system has only the signals that end the context. Reload and Reopen do
// the work of the others.
func notify(c, ignored chan os.Signal, hangup, upgrade bool) {}

func actionOf(os.Signal) action { return none }
