package fcgi_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/fcgi"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// drain receives until the end of the connection.
func (p *peer) drain() {
	for _, ok := p.next(); ok; _, ok = p.next() {
	}
}

// stages are the states in which a request can be canceled. serve is the application. It calls
// reached, and observes the end of its connection after the request is canceled.
var stages = []struct {
	name   string
	body   func() io.ReadCloser // of the request; nil for none
	length int64
	serve  func(p *peer, reached func(), cancelled <-chan struct{})
	headed bool // the response has begun
}{
	{"sending the request", nil, 0, func(p *peer, reached func(), cancelled <-chan struct{}) {
		p.Read(make([]byte, 1))
		reached()
		<-cancelled
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
	{"sending a body that nobody takes", func() io.ReadCloser { return io.NopCloser(newPattern(1 << 20)) }, 1 << 20,
		func(p *peer, reached func(), cancelled <-chan struct{}) {
			p.head()
			reached()
			<-cancelled
			p.drain()
		}, false},
	{"sending a body, while another comes", func() io.ReadCloser { return io.NopCloser(newPattern(1 << 20)) }, -1,
		func(p *peer, reached func(), cancelled <-chan struct{}) {
			p.head()
			p.out("\nhalf")
			reached()
			<-cancelled
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
			cancelled := make(chan struct{})
			served := make(chan struct{})
			reached, returned := make(chan struct{}), make(chan struct{})
			tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1,
				DialContext: piped(t, func(p *peer, _ int) {
					stage.serve(p, func() { close(reached) }, cancelled)
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
				close(cancelled)
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
		t.Errorf("cancelled from the start: %v", err)
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
	for _, answer := range [][]byte{whole("\nbody"), whole("Status: 204\n\n"), []byte("nonsense")} {
		tr := canned(t, true, answer)
		var watchers atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, _, err := responseTo(tr,
			get(t, address).WithContext(watched{ctx, &watchers})); (err != nil) != (answer[0] == 'n') {
			t.Error(err)
		}
		if n := watchers.Load(); n != 0 {
			t.Errorf("%d watch after %q", n, answer)
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

// RoundTrip returns as soon as the response's head has arrived, even if the request's body goes on.
// Then both go on at the same time.
func TestResponseMayPrecedeEndOfBody(t *testing.T) {
	tr := checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 1, Addr: listen(t, "tcp", func(p *peer, _ int) {
		p.head()
		p.out("Status: 202 Early\n\n")
		for piece, ok := p.next(); ok && !piece.Ends(); piece, ok = p.next() {
			p.out(strings.ToUpper(string(piece.Content)))
		}
		p.end()
		p.next()
	})})
	words := []string{"one", "two", strings.Repeat("three", 30_000)}
	in, out := io.Pipe()
	r := newRequest(t, "POST", address, in)
	r.ContentLength = int64(len(strings.Join(words, "")))
	resp, err := tr.RoundTrip(r)
	if err != nil || resp.Status != "202 Early" {
		t.Fatal(resp, err)
	}
	for i, word := range words {
		go func() {
			io.WriteString(out, word)
			if i == len(words)-1 {
				out.Close()
			}
		}()
		got := make([]byte, len(word))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != strings.ToUpper(word) {
			t.Fatalf("%.10q, %v; want %.10q", got, err, strings.ToUpper(word))
		}
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != 0 || err != nil {
		t.Errorf("%d more bytes, %v", n, err)
	}
	eventually(t, "the connection is kept", func() bool { return tr.Idle() == 1 })
}

// A response that ends before the request's body is complete. The body and the connection are
// closed.
func TestResponseEndsBeforeRequestBody(t *testing.T) {
	for _, closes := range []bool{false, true} {
		body := newStuck(true)
		tr := checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 1, Addr: listen(t, "tcp", func(p *peer, _ int) {
			p.head()
			p.answer("\nbody")
			if !closes {
				p.drain()
			}
		})})
		r := newRequest(t, "POST", address, body)
		must(t, tr, r, "body")
		<-body.closed
		if tr.Idle() != 0 {
			t.Error("the connection is kept")
		}
	}
}

// The response of an application that closes without reading the body is received.
func TestResponseToRejectedBodyIsReceived(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		tr := checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 1, Addr: listen(t, network, func(p *peer, _ int) {
			p.head()
			p.answer("Status: 413\n\ntoo large")
			p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			io.CopyN(io.Discard, p, 1<<20) // a part of it
		})})
		resp := must(t, tr, newRequest(t, "PUT", address, newPattern(8<<20)), "too large")
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s", resp.Status)
		}
	}
}

// gated is a connection that reports when a write is done, and returns from it when it is allowed
// to.
type gated struct {
	net.Conn
	wrote chan struct{}
	gate  chan error // the error to return
}

func (g gated) Write(p []byte) (int, error) {
	n, err := g.Conn.Write(p)
	g.wrote <- struct{}{}
	return n, errors.Join(err, <-g.gate)
}

// If the last write returns after the end of the response, the connection is kept then, and only if
// the write succeeds.
func TestConnectionIsKeptAfterLateWrite(t *testing.T) {
	for _, late := range []error{nil, errWanted} {
		dial := piped(t, func(p *peer, _ int) {
			for p.request() != nil {
				p.answer("\nbody")
			}
		})
		g := gated{wrote: make(chan struct{}, 10), gate: make(chan error, 10)}
		dials := 0
		tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials++
				g.Conn, _ = dial(ctx, network, addr)
				return g, nil
			}})
		g.gate <- nil // for the head
		must(t, tr, newRequest(t, "POST", address, strings.NewReader(strings.Repeat("body", 5000))), "body")
		for range 2 {
			<-g.wrote
		}
		if tr.Idle() != 0 || tr.Active() != 1 {
			t.Errorf("%d idle, %d active", tr.Idle(), tr.Active())
		}
		g.gate <- late
		eventually(t, "the connection is given back", func() bool { return tr.Active() == 0 })
		g.gate <- nil
		must(t, tr, get(t, address), "body")
		if kept := dials == 1; kept != (late == nil) {
			t.Errorf("%v: %d connections", late, dials)
		}
	}
}

// If the last write fails, the connection is not kept, even if the response is complete.
func TestConnectionIsClosedAfterFailedWrite(t *testing.T) {
	body := newClosable(newPattern(20_000))
	dial := piped(t, func(p *peer, _ int) {
		p.request()
		<-body.closed // the sender has stopped
		p.answer("\nbody")
	})
	g := gated{wrote: make(chan struct{}, 3), gate: make(chan error, 3)}
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1,
		DialContext: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
			g.Conn, err = dial(ctx, network, addr)
			return g, err
		}})
	g.gate <- nil       // for the head
	g.gate <- errWanted // for the body
	r := newRequest(t, "POST", address, body)
	r.ContentLength = 20_000
	must(t, tr, r, "body")
	if tr.Active()+tr.Idle() != 0 {
		t.Errorf("%d active, %d idle", tr.Active(), tr.Idle())
	}
}

// If a request's body fails, or has another length than ContentLength, the request fails.
func TestFaultyRequestBodiesFail(t *testing.T) {
	broken := io.MultiReader(newPattern(100_000), &brokenReader{})
	for _, test := range []struct {
		name   string
		body   io.Reader
		length int64
		want   string
	}{
		{"short one too short", strings.NewReader("body"), 5,
			"ContentLength=5 does not match the body, of which 4 bytes were read"},
		{"short one too long", strings.NewReader("body"), 3,
			"ContentLength=3 does not match the body, of which 4 bytes were read"},
		{"short one broken", &brokenReader{}, 3, errWanted.Error()},
		{"long one too short", newPattern(99_999), 100_000,
			"ContentLength=100000 does not match the body, of which 99999 bytes were read"},
		{"long one too long", newPattern(100_001), 100_000,
			"ContentLength=100000 does not match the body, of which 100001 bytes were read"},
		{"long one broken", broken, 200_000, errWanted.Error()},
		{"long one with an error that wraps io.EOF",
			io.MultiReader(newPattern(100_000), &brokenReader{fmt.Errorf("%w: %w", errWanted, io.EOF)}), -1,
			errWanted.Error()},
		{"short one with an error that wraps io.EOF",
			io.MultiReader(strings.NewReader("bod"),
				&brokenReader{fmt.Errorf("%w: %w", errWanted, io.EOF)}), 4, errWanted.Error()},
		{"short one whose client has gone", &brokenReader{io.ErrUnexpectedEOF}, 4, io.ErrUnexpectedEOF.Error()},
		{"broken", io.MultiReader(strings.NewReader("body"), &brokenReader{}), -1, errWanted.Error()},
		{"never anything", idleReader{}, -1, io.ErrNoProgress.Error()},
		{"never an end", io.MultiReader(newPattern(100_000), idleReader{}), 100_000, io.ErrNoProgress.Error()},
	} {
		whole := false
		served := make(chan struct{})
		tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1,
			DialContext: piped(t, func(p *peer, _ int) {
				whole = p.request() != nil
				close(served)
			})})
		body := newClosable(test.body)
		r := newRequest(t, "POST", address, body)
		r.ContentLength = test.length
		_, err := tr.RoundTrip(r)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
		<-body.closed
		if !strings.HasPrefix(test.name, "short") {
			if <-served; whole {
				t.Errorf("%s: the application has got a whole request", test.name)
			}
		}
	}
	r := newRequest(t, "POST", address, nil)
	r.ContentLength = 5
	if _, err := (&fcgi.Transport{Addr: "x:1"}).RoundTrip(r); err == nil ||
		!strings.Contains(err.Error(), "ContentLength=5") {
		t.Errorf("no body with a length: %v", err)
	}
}

type brokenReader struct{ err error }

func (b *brokenReader) Read([]byte) (int, error) { return 0, cmp.Or(b.err, errWanted) }

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

// A slow application slows the body's reader down: no more than one piece is read ahead.
func TestSlowApplicationSlowsBody(t *testing.T) {
	const ahead = 128 << 10
	source := &counter{Reader: newPattern(8 << 20)}
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1", DialContext: piped(t, func(p *peer, _ int) {
		p.head()
		for got := 0; got < 1<<20; {
			piece, _ := p.next()
			got += len(piece.Content)
			if n := int(source.n.Load()); n > got+ahead {
				t.Errorf("%d bytes were read for %d that were received", n, got)
				break
			}
		}
		p.answer("\nenough")
	})})
	must(t, tr, newRequest(t, "POST", address, source), "enough")
}

type counter struct {
	io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Requests get connections in the order of their arrival, and none waits forever.
func TestRequestsWaitInOrder(t *testing.T) {
	for _, kept := range []int{0, 1} {
		const requests, conns = 12, 2
		var mu sync.Mutex
		var order []string
		now, most := 0, 0
		proceed := make(chan struct{})
		tr := checked(t, &fcgi.Transport{MaxConnsPerHost: conns, MaxIdleConnsPerHost: kept,
			Addr: listen(t, "unix", func(p *peer, _ int) {
				for r := p.request(); r != nil; r = p.request() {
					mu.Lock()
					order = append(order, r.params["QUERY_STRING"])
					now++
					most = max(most, now)
					mu.Unlock()
					<-proceed
					mu.Lock()
					now--
					mu.Unlock()
					p.answer("\nbody")
					if !r.keep {
						return
					}
				}
			})})
		received := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(order)
		}
		var all sync.WaitGroup
		for i := range requests {
			all.Go(func() { must(t, tr, get(t, fmt.Sprint(address, "?", i)), "body") })
			eventually(t, "the request waits", func() bool {
				return received() == min(i+1, conns) && tr.Waiting() == max(0, i+1-conns)
			})
		}
		for i := range requests {
			proceed <- struct{}{}
			eventually(t, "the next request has come", func() bool { return received() == min(requests, conns+i+1) })
		}
		all.Wait()
		if most > conns {
			t.Errorf("%d requests at a time", most)
		}
		for i, got := range order {
			if got != fmt.Sprint(i) {
				t.Fatalf("the order is %v", order)
			}
		}
		if tr.Active() != 0 || tr.Idle() != kept {
			t.Errorf("%d active, %d idle", tr.Active(), tr.Idle())
		}
	}
}

// If a request is canceled when it gets a connection, the next request gets that.
func TestConnectionOfCanceledRequestGoesToNext(t *testing.T) {
	tr := checked(t, &fcgi.Transport{MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1,
		Addr: listen(t, "unix", func(p *peer, _ int) {
			for p.request() != nil {
				p.answer("\nbody")
			}
		})})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Microsecond)
				_, body, err := responseTo(tr, get(t, address).WithContext(ctx))
				if body != "body" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%q, %v", body, err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	must(t, tr, get(t, address), "body")
}

// The Transport keeps no more connections than it may, and none without need.
func TestIdleConnectionsAreLimited(t *testing.T) {
	var conns atomic.Int32
	arrived := make(chan struct{})
	proceed := make(chan struct{})
	tr := checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 2, Addr: listen(t, "tcp", func(p *peer, _ int) {
		conns.Add(1)
		defer conns.Add(-1)
		for p.request() != nil {
			arrived <- struct{}{}
			<-proceed
			p.answer("\nbody")
		}
	})})
	round := func(n int, keep bool) {
		var all sync.WaitGroup
		for range n {
			r := get(t, address)
			r.Close = !keep
			all.Go(func() { must(t, tr, r, "body") })
		}
		for range n {
			<-arrived
		}
		for range n {
			proceed <- struct{}{}
		}
		all.Wait()
	}
	round(5, true)
	eventually(t, "two connections are left", func() bool { return tr.Idle() == 2 && conns.Load() == 2 })
	round(1, false)
	eventually(t, "one of them is left", func() bool { return tr.Idle() == 1 && conns.Load() == 1 })
	tr.CloseIdleConnections()
	eventually(t, "none is left", func() bool { return tr.Idle() == 0 && conns.Load() == 0 && tr.Pools() == 0 })
	round(1, true)
	if tr.Idle() != 1 {
		t.Error("no connection is kept after CloseIdleConnections")
	}
}

// plain is a connection whose socket is hidden from the Transport. It reports writes.
type plain struct {
	net.Conn
	fails *atomic.Bool // writes fail, and write nothing
}

func (p plain) Write(b []byte) (int, error) {
	if p.fails != nil && p.fails.Load() {
		return 0, errWanted
	}
	return p.Conn.Write(b)
}

// once returns a dialer to an application. Its first connection responds to one request. On a
// second request it calls second and closes the connection. Later connections respond to all
// requests.
func once(t *testing.T, requests *atomic.Int32, second func(p *peer)) func(
	context.Context, string, string) (net.Conn, error) {
	return piped(t, func(p *peer, n int) {
		for i := 0; p.request() != nil; i++ {
			requests.Add(1)
			if n == 0 && i == 1 {
				second(p)
				return
			}
			p.answer("\nbody")
		}
	})
}

// A request on a kept connection that ends without a response is retried if that is safe, and only
// once.
func TestRequestIsRetriedOnlyIfSafe(t *testing.T) {
	body := func() io.ReadCloser { return io.NopCloser(strings.NewReader("body")) }
	long := func() (io.ReadCloser, error) { return io.NopCloser(newPattern(100_000)), nil }
	for _, test := range []struct {
		name   string
		change func(r *http.Request)
		second func(p *peer)
		want   int32 // requests that the application has received; 2 means no retry
	}{
		{"GET", func(*http.Request) {}, nil, 3},
		{"no method", func(r *http.Request) { r.Method = "" }, nil, 3},
		{"HEAD", func(r *http.Request) { r.Method = "HEAD" }, nil, 3},
		{"POST", func(r *http.Request) { r.Method = "POST" }, nil, 2},
		{"PATCH with a body", func(r *http.Request) { r.Method, r.Body, r.ContentLength = "PATCH", body(), 4 }, nil, 2},
		{"POST with a key", func(r *http.Request) { r.Method = "POST"; r.Header.Set("Idempotency-Key", "1") }, nil, 3},
		{"POST with a key and a short body", func(r *http.Request) {
			r.Method, r.Body, r.ContentLength = "POST", body(), 4
			r.Header.Set("X-Idempotency-Key", "1")
		}, nil, 3},
		{"GET with a long body", func(r *http.Request) { r.Body, _ = long(); r.ContentLength = 100_000 }, nil, 2},
		{"GET with a long body that can be had again", func(r *http.Request) {
			r.Body, _ = long()
			r.ContentLength, r.GetBody = 100_000, long
		}, nil, 3},
		{"GET with a body that cannot be had again after all", func(r *http.Request) {
			r.Body, _ = long()
			r.ContentLength, r.GetBody = 100_000, func() (io.ReadCloser, error) { return nil, errWanted }
		}, nil, 2},
		{"GET that has got a byte", func(*http.Request) {}, func(p *peer) { p.Write([]byte{1}) }, 2},
	} {
		var requests atomic.Int32
		second := test.second
		if second == nil {
			second = func(*peer) {}
		}
		tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1,
			DialContext: once(t, &requests, second)})
		must(t, tr, get(t, address), "body")
		r := get(t, address)
		test.change(r)
		resp, _, err := responseTo(tr, r)
		if (resp != nil) != (test.want == 3) || resp == nil && !errors.Is(err, io.ErrUnexpectedEOF) ||
			requests.Load() != test.want {
			t.Errorf("%s: %d requests, %v", test.name, requests.Load(), err)
		}
		must(t, tr, get(t, address), "body")
	}
}

// A retry uses a new connection, in place of one that is kept, and does not affect the others.
func TestRetryDoesNotAffectOtherConnections(t *testing.T) {
	const conns = 4
	var all sync.WaitGroup
	arrived := make(chan bool)
	var proceed [conns]chan bool
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: conns,
		DialContext: piped(t, func(p *peer, n int) {
			// the last connection breaks
			for i := 0; p.request() != nil && (n != conns-1 || i == 0); i++ {
				if n < conns && i == 0 {
					arrived <- true
					<-proceed[n]
				}
				p.answer("\nbody")
			}
		})})
	for n := range proceed {
		proceed[n] = make(chan bool)
		all.Go(func() { must(t, tr, get(t, address), "body") })
		<-arrived
	}
	for n := range proceed {
		proceed[n] <- true
		eventually(t, "the connection is kept", func() bool { return tr.Idle() == n+1 })
	}
	all.Wait()
	must(t, tr, get(t, address), "body")
	if tr.Idle() != conns-1 {
		t.Errorf("%d connections are kept", tr.Idle())
	}
}

// A request with a buffered body can be retried.
func TestRetryOfBufferedBody(t *testing.T) {
	var requests atomic.Int32
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1, BufferBody: 1 << 20,
		DialContext: once(t, &requests, func(*peer) {})})
	for range 2 {
		r := newRequest(t, "POST", address, io.MultiReader(newPattern(100_000)))
		r.Header.Set("Idempotency-Key", "1")
		must(t, tr, r, "body")
		eventually(t, "the connection is kept", func() bool { return tr.Idle() == 1 })
	}
	if requests.Load() != 3 {
		t.Errorf("%d requests", requests.Load())
	}
}

// A request of which nothing was sent may be retried, whatever its method.
func TestUnsentRequestIsRetried(t *testing.T) {
	for _, body := range []string{"", "short", strings.Repeat("long", 10_000)} {
		var fails atomic.Bool
		var requests atomic.Int32
		dial := once(t, &requests, func(*peer) { t.Error("the first connection was used again") })
		dials := 0
		tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				if dials++; dials == 1 {
					return plain{nc, &fails}, err
				}
				return nc, err
			}})
		must(t, tr, get(t, address), "body")
		fails.Store(true)
		must(t, tr, newRequest(t, "POST", address, strings.NewReader(body)), "body")
		if dials != 2 || requests.Load() != 2 {
			t.Errorf("%d connections, %d requests", dials, requests.Load())
		}
	}
}

// A kept connection that the application has closed is not used. So no retry is needed, and not
// even a POST fails.
func TestClosedConnectionIsNotUsed(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, last := range []string{"", "unasked"} {
			var conns []net.Conn
			wrote := make(chan struct{}, 3)
			tr := checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 2, Addr: listen(t, network, func(p *peer, _ int) {
				p.request()
				p.answer("\nbody")
				io.WriteString(p, last)
				wrote <- struct{}{}
			}), DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, network, addr)
				conns = append(conns, nc)
				return nc, err
			}})
			for i := range 3 {
				must(t, tr, newRequest(t, "POST", address, strings.NewReader("body")), "body")
				<-wrote
				// a closed connection stays readable: wait until it is
				if last == "" && tr.Idle() == 1 {
					if n, err := conns[i].Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
						t.Fatalf("%d, %v", n, err)
					}
				}
			}
			if len(conns) != 3 {
				t.Errorf("%d connections", len(conns))
			}
		}
	}
}

// deaf is a connection that accepts only the first byte of a write.
type deaf struct{ net.Conn }

func (d deaf) Write(b []byte) (int, error) {
	n, _ := d.Conn.Write(b[:1])
	return n, errWanted
}

// The timeouts, in a synctest bubble.
func TestTransportTimeouts(t *testing.T) {
	bubble := func(name string, tr *fcgi.Transport, serve func(p *peer, n int), f func(t *testing.T, start time.Time)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr.Addr = "pipe:1"
				if serve != nil {
					tr.DialContext = piped(t, serve)
				}
				f(t, time.Now())
				tr.CloseIdleConnections()
			})
		})
	}
	slow := func(p *peer, _ int) {
		for p.request() != nil {
			time.Sleep(time.Hour)
			p.out("\n")
			time.Sleep(2 * time.Hour)
			p.out("body")
			p.end()
		}
	}
	isTimeout := func(t *testing.T, err error, start time.Time, after time.Duration) {
		t.Helper()
		ne, ok := errors.AsType[net.Error](err)
		if !ok || !ne.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) &&
			!errors.Is(err, context.DeadlineExceeded) || time.Since(start).Round(time.Second) != after {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	}

	tr := &fcgi.Transport{ResponseHeaderTimeout: time.Minute, MaxIdleConnsPerHost: 1}
	bubble("head", tr, slow, func(t *testing.T, start time.Time) {
		_, err := tr.RoundTrip(get(t, address))
		isTimeout(t, err, start, time.Minute)
		if want := "fcgi: no response within 1m0s (ResponseHeaderTimeout)"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	})
	tr2 := &fcgi.Transport{ResponseHeaderTimeout: time.Minute, MaxIdleConnsPerHost: 1}
	bubble("head of the second response, which is no reason to ask again", tr2, func(p *peer, n int) {
		if n > 0 {
			t.Error("another connection")
		}
		p.request()
		p.answer("\nbody")
		slow(p, n)
	}, func(t *testing.T, start time.Time) {
		must(t, tr2, get(t, address), "body")
		_, err := tr2.RoundTrip(get(t, address))
		isTimeout(t, err, start, time.Minute)
	})
	tr3 := &fcgi.Transport{ResponseHeaderTimeout: 2 * time.Hour, MaxIdleConnsPerHost: 1, IdleConnTimeout: 3 * time.Hour}
	bubble("head in time; the body has all the time", tr3, slow, func(t *testing.T, start time.Time) {
		for range 2 {
			must(t, tr3, get(t, address), "body")
		}
		if time.Since(start) != 6*time.Hour || tr3.Idle() != 1 {
			t.Errorf("%v, %d kept", time.Since(start), tr3.Idle())
		}
	})
	tr4 := &fcgi.Transport{ResponseHeaderTimeout: time.Minute}
	bubble("head after a slow body", tr4, slow, func(t *testing.T, start time.Time) {
		in, out := io.Pipe()
		time.AfterFunc(time.Hour, func() { out.Close() })
		_, err := tr4.RoundTrip(newRequest(t, "POST", address, in))
		isTimeout(t, err, start, time.Hour+time.Minute)
	})
	tr5 := &fcgi.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	bubble("connecting", tr5, nil, func(t *testing.T, start time.Time) {
		_, err := tr5.RoundTrip(get(t, address))
		isTimeout(t, err, start, 10*time.Second)
		longer := &fcgi.Transport{Addr: tr5.Addr, DialContext: tr5.DialContext, DialTimeout: time.Hour}
		_, err = longer.RoundTrip(get(t, address))
		isTimeout(t, err, start, time.Hour+10*time.Second)
	})
	tr7 := new(fcgi.Transport)
	bubble("an answer of one that takes no more", tr7, slow, func(t *testing.T, start time.Time) {
		dial := tr7.DialContext
		tr7.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := dial(ctx, network, addr)
			return deaf{nc}, err
		}
		if _, err := tr7.RoundTrip(get(t, address)); !errors.Is(err, errWanted) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
	tr8 := &fcgi.Transport{MaxIdleConnsPerHost: 1}
	bubble("the timer of a pool that is no more", tr8, slow, func(t *testing.T, _ time.Time) {
		must(t, tr8, get(t, address), "body")
		tr8.CloseIdleConnections()
		resp, err := tr8.RoundTrip(get(t, address))
		if err != nil || tr8.Active() != 1 {
			t.Errorf("%v, %d active", err, tr8.Active())
		}
		resp.Body.Close()
	})
	tr6 := &fcgi.Transport{MaxIdleConnsPerHost: 5}
	arrived := new(sync.WaitGroup)
	bubble("idle connections", tr6, func(p *peer, _ int) {
		for p.request() != nil {
			time.Sleep(time.Second)
			p.answer("\nbody")
		}
	}, func(t *testing.T, _ time.Time) {
		for i := range 3 {
			arrived.Go(func() { must(t, tr6, get(t, address), "body") })
			if i < 2 {
				time.Sleep(300 * time.Millisecond)
			}
		}
		arrived.Wait() // the connections became idle after 1 s, 1.3 s and 1.6 s
		for at, want := range []int{3, 2, 1, 0} {
			synctest.Wait()
			if tr6.Idle() != want {
				t.Errorf("%d connections after step %d, want %d", tr6.Idle(), at, want)
			}
			if at == 0 {
				time.Sleep(29*time.Second + 150*time.Millisecond)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if tr6.Pools() != 0 {
			t.Error("the pool is not forgotten")
		}
	})
}

// Many goroutines send requests with long and short bodies and cancel some, for the race detector.
func TestConcurrentRequests(t *testing.T) {
	tr := checked(t, &fcgi.Transport{MaxConnsPerHost: 4, MaxIdleConnsPerHost: 2,
		Addr: application(t, "unix", func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Same", r.Header.Get("X-Same"))
			w.Write(b)
		})})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 40 {
				body := bytes.Repeat([]byte{byte('a' + i)}, j*j*50)
				r := newRequest(t, "PUT", address, bytes.NewReader(body))
				r.Header.Set("X-Same", fmt.Sprint(i, j))
				ctx, cancel := context.WithCancel(t.Context())
				if j%5 == 4 {
					time.AfterFunc(time.Duration(j)*10*time.Microsecond, cancel)
				}
				resp, got, err := responseTo(tr, r.WithContext(ctx))
				cancel()
				if err != nil && j%5 != 4 || err == nil &&
					(got != string(body) || resp.Header.Get("X-Same") != fmt.Sprint(i, j)) {
					t.Errorf("%d %d: %d bytes, %v", i, j, len(got), err)
				}
			}
		})
	}
	all.Wait()
}
