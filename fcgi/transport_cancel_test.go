package fcgi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/fcgi"
)

// A request can also be canceled before it has a connection.
func TestRequestWithoutConnectionIsCanceled(t *testing.T) {
	dialing := make(chan bool)
	tr := checked(t, &fcgi.Transport{Addr: "x:1", MaxConnsPerHost: 1,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialing <- true
			<-ctx.Done()
			return nil, ctx.Err()
		}})
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error)
	try := func(ctx context.Context, body io.ReadCloser, length int64) {
		r := newRequest(t, "POST", address, nil).WithContext(ctx)
		r.Body, r.ContentLength = body, length
		go func() {
			_, err := tr.RoundTrip(r)
			failed <- err
		}()
	}
	try(ctx, nil, 0)
	<-dialing
	for _, easy := range []bool{true, false} { // with a short body, whose Read waits
		waits, end := context.WithCancelCause(t.Context())
		body := newStuck(easy)
		try(waits, body, 10)
		<-body.read
		end(errWanted)
		if err := <-failed; !errors.Is(err, errWanted) {
			t.Errorf("waiting for a body: %v", err)
		}
		close(body.release)
		<-body.closed
	}
	waits, end := context.WithCancelCause(t.Context())
	body := newClosable(strings.NewReader("body"))
	try(waits, body, 4)
	eventually(t, "a request waits for its turn", func() bool { return tr.Waiting() == 1 })
	end(errWanted)
	if err := <-failed; !errors.Is(err, errWanted) || tr.Waiting() != 0 {
		t.Errorf("waiting for a turn: %v, %d wait", err, tr.Waiting())
	}
	<-body.closed
	cancel(errWanted)
	if err := <-failed; !errors.Is(err, errWanted) {
		t.Errorf("opening a connection: %v", err)
	}
	body = newClosable(strings.NewReader("body"))
	try(ctx, body, 4)
	if err := <-failed; !errors.Is(err, errWanted) {
		t.Errorf("canceled from the start: %v", err)
	}
	<-body.closed
}

// watched is a context that counts its watchers.
type watched struct {
	context.Context
	watchers *atomic.Int32
}

func (w watched) AfterFunc(f func()) (stop func() bool) {
	w.watchers.Add(1)
	end := context.AfterFunc(w.Context, f)
	return func() bool {
		w.watchers.Add(-1)
		return end()
	}
}

// Value hides the type of the context. Otherwise package context would not call AfterFunc.
func (w watched) Value(any) any { return nil }

// A context is watched only as long as a request takes.
func TestContextIsWatchedOnlyDuringRequest(t *testing.T) {
	for _, response := range [][]byte{whole("\nbody"), whole("Status: 204\n\n"), []byte("nonsense")} {
		tr := canned(t, true, response)
		var watchers atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, _, err := responseTo(tr,
			get(t, address).WithContext(watched{ctx, &watchers})); (err != nil) != (response[0] == 'n') {
			t.Error(err)
		}
		if n := watchers.Load(); n != 0 {
			t.Errorf("%d watch after %q", n, response)
		}
	}
}
