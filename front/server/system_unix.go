//go:build unix

package server

import (
	"os"
	"os/signal"
	"syscall"
)

// nonBlocking are the flags for opening pipes and devices.
const nonBlocking = syscall.O_NONBLOCK | syscall.O_NOCTTY

// quitSignal requests a drain.
const quitSignal = syscall.SIGQUIT

// notify sends the signals to handle to c, besides those that end the context. ignored receives
// SIGPIPE: if the reader of standard output exits, writes fail and the process continues.
func notify(c, ignored chan os.Signal, hangup, upgrade bool) {
	signal.Notify(c, quitSignal, syscall.SIGUSR1)
	if hangup {
		signal.Notify(c, syscall.SIGHUP)
	}
	if upgrade {
		signal.Notify(c, syscall.SIGUSR2)
	}
	signal.Notify(ignored, syscall.SIGPIPE)
}

func actionOf(sig os.Signal) action {
	switch sig {
	case quitSignal:
		return quit
	case syscall.SIGUSR1:
		return reopen
	case syscall.SIGHUP:
		return reload
	case syscall.SIGUSR2:
		return replace
	}
	return none
}
