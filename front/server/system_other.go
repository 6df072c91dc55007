//go:build !unix

package server

import "syscall"

const nonBlocking = 0

// quitSignal is one that ends the context anyway.
const quitSignal = syscall.SIGTERM

// notify does nothing: this system has only the signals that end the context. Reload and Reopen do
// the work of the others.
func (actions) notify(hangup, upgrade bool) (stop func()) { return func() {} }
