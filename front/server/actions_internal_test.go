//go:build unix

package server

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Hundreds of SIGHUP during a reload neither displace other signals nor cause as many reloads.
func TestSignalsAreNotLost(t *testing.T) {
	all := []os.Signal{syscall.SIGUSR1, quitSignal, syscall.SIGHUP}
	signal.Notify(make(chan os.Signal, 1), all...) // a late one must not end the process
	s := New(nil, Options{})
	_, a, stop := s.notify(t.Context())
	defer stop()
	for range 300 {
		testkit.Must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	}
	for _, sig := range all {
		testkit.Must(t, syscall.Kill(os.Getpid(), sig.(syscall.Signal)))
	}
	testkit.Receive(t, a.reopen, "SIGUSR1")
	testkit.Receive(t, s.stopped, "SIGQUIT")
	testkit.Receive(t, a.reload, "SIGHUP")
	testkit.Equal(t, cap(a.reload), 1, "how many of them may wait")
}
