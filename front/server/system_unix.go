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

// notify sends signals to their channels. It also catches SIGPIPE: if the reader of standard output
// exits, writes fail and the process continues.
func (a actions) notify(hangup, upgrade bool) (stop func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGPIPE)
	signal.Notify(a.reopen, syscall.SIGUSR1)
	if hangup {
		signal.Notify(a.reload, syscall.SIGHUP)
	}
	if upgrade {
		signal.Notify(a.upgrade, syscall.SIGUSR2)
	}
	return func() {
		for _, c := range []chan os.Signal{caught, a.reopen, a.reload, a.upgrade} {
			signal.Stop(c)
		}
	}
}
