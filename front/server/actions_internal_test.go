//go:build unix

package server

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// Hundreds of SIGHUP during a reload neither displace other signals nor cause as many reloads.
func TestSignalsAreNotLost(t *testing.T) {
	signals := make(chan os.Signal, 8)
	actions, stop := actionsOf(signals)
	defer stop()
	late := time.After(time.Minute)
	send := func(sig os.Signal) {
		t.Helper()
		select {
		case signals <- sig:
		case <-late:
			t.Fatalf("%v is lost: the channel is full", sig)
		}
	}
	for range 300 {
		send(syscall.SIGHUP)
	}
	for _, sig := range []os.Signal{syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGUSR2, syscall.SIGUSR1, quitSignal} {
		send(sig)
	}
	for len(signals) > 0 { // the last ones are on their way
		time.Sleep(time.Millisecond)
	}
	var got []action
	for len(got) == 0 || got[len(got)-1] != quit {
		select {
		case a := <-actions:
			got = append(got, a)
		case <-late:
			t.Fatalf("%v, then nothing", got)
		}
	}
	testkit.Equal(t, got, []action{reload, reopen, replace, quit})
}
