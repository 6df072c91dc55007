//go:build !unix

package server

import (
	"os"
	"syscall"
)

const nonBlocking = 0

// quitSignal is one that ends the context anyway.
const quitSignal = syscall.SIGTERM

// notify does nothing: this system has only the signals that end the context. Reload and Reopen do
// the work of the others.
func notify(c, ignored chan os.Signal, hangup, upgrade bool) {}

func actionOf(os.Signal) action { return none }
