package testkit

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// Tests runs the tests of a package whose tests start programs. A TestMain uses it in place of its
// testing.M. The programs start with the default actions of signals, and none outlives the run.
type Tests struct{ *testing.M }

// Run runs the tests and returns the exit code.
func (t Tests) Run() int {
	defaultSignals()
	return runGuarded(t.M.Run)
}

// defaultSignals makes programs that this process starts begin with the default actions of SIGHUP
// and SIGINT. A Go program that was started with one of them ignored, as nohup and shell scripts
// do, would pass that on. The others have their default actions in programs that Go starts. A
// signal that this process ignored still has no effect on it.
func defaultSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
