package fcgi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/fcgi"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// stages are the states in which a request can be canceled. serve is the application. It calls
// reached, and observes the end of its connection after the request is canceled.
var stages = []struct {
	name   string
	body   func() io.ReadCloser // of the request; nil for none
	length int64
	serve  func(p *peer, reached func(), canceled <-chan struct{})
	headed bool // the response has begun
}{
	{"sending the request", nil, 0, func(p *peer, reached func(), canceled <-chan struct{}) {
		p.Read(make([]byte, 1))
		reached()
		<-canceled
		io.Copy(io.Discard, p)
	}, false},
	{"waiting for the response", nil, 0, func(p *peer, reached func(), _ <-chan struct{}) {
		p.request()
		reached()
		p.drain()
	}, false},
	{"in the middle of the head", nil, 0, func(p *peer, reached func(), _ <-chan struct{}) {
		p.request()
		p.out("Status: 200 OK\n")
		reached()
		p.drain()
	}, false},
	{"in the middle of the body", nil, 0, func(p *peer, reached func(), _ <-chan struct{}) {
		p.request()
		p.out("\nhalf")
		reached()
		p.drain()
	}, true},
	{"sending a body that the application does not read",
		func() io.ReadCloser { return io.NopCloser(newPattern(1 << 20)) }, 1 << 20,
		func(p *peer, reached func(), canceled <-chan struct{}) {
			p.head()
			reached()
			<-canceled
			p.drain()
		}, false},
	{"sending a body, while another comes", func() io.ReadCloser { return io.NopCloser(newPattern(1 << 20)) }, -1,
		func(p *peer, reached func(), canceled <-chan struct{}) {
			p.head()
			p.out("\nhalf")
			reached()
			<-canceled
			p.drain()
		}, true},
	{"waiting for the rest of a body", func() io.ReadCloser { return newStuck(true) }, -1,
		func(p *peer, reached func(), _ <-chan struct{}) {
			p.head()
			reached()
			p.drain()
		}, false},
	{"waiting for the rest of a body that cannot be interrupted", func() io.ReadCloser { return newStuck(false) }, -1,
		func(p *peer, reached func(), _ <-chan struct{}) {
			p.head()
			reached()
			p.drain()
		}, false},
}

// A request that is canceled in any state fails with the cause. Its connection and its body are
// closed, and no goroutine is left.
func TestCancellationReturnsCause(t *testing.T) {
	for _, stage := range stages {
		t.Run(stage.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			canceled := make(chan struct{})
			served := make(chan struct{})
			reached, returned := make(chan struct{}), make(chan struct{})
			tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1,
				DialContext: piped(t, func(p *peer, _ int) {
					stage.serve(p, func() { close(reached) }, canceled)
					close(served)
				})})
			r := newRequest(t, "POST", address, nil).WithContext(ctx)
			if stage.body != nil {
				r.Body, r.ContentLength = stage.body(), stage.length
			}
			go func() {
				<-reached
				if stage.headed { // a response that was received and not returned yet is dropped
					<-returned
				}
				if s, ok := r.Body.(*stuck); ok {
					<-s.read
				}
				cancel(errWanted)
				close(canceled)
			}()
			resp, body, err := responseTo(tripper(func(r *http.Request) (*http.Response, error) {
				defer close(returned)
				return tr.RoundTrip(r)
			}), r)
			if !errors.Is(err, errWanted) || (resp != nil) != stage.headed || !strings.HasPrefix("half", body) {
				t.Error(describe(resp, body, err))
			}
			<-served
			if s, ok := r.Body.(*stuck); ok {
				close(s.release)
				<-s.closed
			}
		})
	}
}

// A request can also be canceled before it has a connection.
func TestCancellationBeforeConnection(t *testing.T) {
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

// A cause of io.EOF, which readers take for the end of a body, is not returned.
func TestCauseEOFIsNotReturned(t *testing.T) {
	tr := canned(t, true, wire.AppendStream(nil, wire.Stdout, 1, []byte("\nhalf")))
	ctx, cancel := context.WithCancelCause(t.Context())
	resp, err := tr.RoundTrip(get(t, address).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel(io.EOF)
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
