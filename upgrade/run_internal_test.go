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

// The second signal ends requests, and the first does not.
func TestSecondSignalEndsRequests(t *testing.T) {
	for _, isSecond := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			u := testkit.Value(New(Options{Signals: []os.Signal{}}))(t)
			s := busyServer{make(chan struct{}), make(chan struct{})}
			u.Serve(s, nil)
			first, endFirst := context.WithCancel(t.Context())
			second, endSecond := context.WithCancel(t.Context())
			endFirst()
			if isSecond {
				endSecond()
			}
			done := make(chan error, 1)
			go func() { done <- u.serveUntil(first, second) }()
			synctest.Wait()
			close(s.finished)
			testkit.Equal(t, errors.Is(<-done, context.Canceled), isSecond, "requests were ended")
			endSecond()
		})
	}
}

// Files of the older process that the program does not request do not stay open.
func TestRunClosesUnusedFiles(t *testing.T) {
	u, unused := testkit.Value(New(Options{Signals: []os.Signal{}}))(t), testkit.Value(os.Open(os.DevNull))(t)
	u.passedFiles = append(u.passedFiles, unused)
	u.Stop()
	testkit.Check(t, u.Run(t.Context()))
	testkit.Error(t, unused.Close(), "already closed")
}
