package testkit

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// Tests runs the tests of a package that start programs. TestMain uses it in place of testing.M.
// Programs start with default signal actions, and none outlives the run.
type Tests struct{ *testing.M }

// Run runs the tests and returns the exit code.
func (t Tests) Run() int {
	defaultSignals()
	return runGuarded(t.M.Run)
}

// defaultSignals makes programs started by this process begin with the default actions of SIGHUP
// and SIGINT. If nohup or a shell script starts a Go program with one of them ignored, its child
// processes inherit that. Go resets the other signals itself. Signals that this process ignored
// still have no effect on it.
func defaultSignals() {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
