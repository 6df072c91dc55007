package upgrade

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"

	"github.com/tarehq/tare/internal/testkit"
)

// busyServer has a request that takes until finished is closed.
type busyServer struct{ closed, finished chan struct{} }

func (s busyServer) Serve(net.Listener) error {
	<-s.closed
	return net.ErrClosed
}

func (s busyServer) ServeTLS(l net.Listener, _, _ string) error { return s.Serve(l) }

func (s busyServer) Shutdown(ctx context.Context) error {
	close(s.closed)
	select {
	case <-s.finished:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s busyServer) Close() error { return nil }

// A program may end Run's context at a signal that Run receives as well: this is not a second one,
// which ends requests.
func TestSecondSignalEndsRequests(t *testing.T) {
	for _, test := range []struct {
		name            string
		ends, cancelled bool // ctx ends; requests are ended
		signals         int
	}{
		{name: "signal", signals: 1},
		{name: "signals", signals: 2, cancelled: true},
		{name: "context", ends: true},
		{name: "context and signal", ends: true, signals: 1},
		{name: "context and signals", ends: true, signals: 2, cancelled: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 16 { // select chooses at random
				synctest.Test(t, func(t *testing.T) { testSignals(t, test.ends, test.signals, test.cancelled) })
			}
		})
	}
}

func testSignals(t *testing.T, ends bool, signals int, cancelled bool) {
	u := testkit.Value(New(Options{Signals: []os.Signal{}}))(t)
	s := busyServer{make(chan struct{}), make(chan struct{})}
	u.Serve(s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if ends {
		cancel()
	}
	stopping := make(chan os.Signal, 2)
	for range signals {
		stopping <- os.Interrupt
	}
	done := make(chan error, 1)
	go func() { done <- u.serveUntil(ctx, stopping) }()
	synctest.Wait()
	close(s.finished)
	testkit.Equal(t, errors.Is(<-done, context.Canceled), cancelled, "requests were ended")
}

// Files of the older process that the program does not request do not stay open.
func TestRunClosesUnusedFiles(t *testing.T) {
	u, unused := testkit.Value(New(Options{Signals: []os.Signal{}}))(t), testkit.Value(os.Open(os.DevNull))(t)
	u.passedFiles = append(u.passedFiles, unused)
	u.Stop()
	testkit.Check(t, u.Run(t.Context()))
	testkit.Error(t, unused.Close(), "already closed")
}
