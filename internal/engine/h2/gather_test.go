package h2_test

import (
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/engine/h2"
)

// openStreams opens streams and runs their handlers in goroutines, off the turn. wait returns when
// the responses were settled.
func (p *peer) openStreams(n int) (wait func()) {
	p.open()
	for i := range n {
		p.get(uint32(2*i + 1))
	}
	p.receive()
	var running sync.WaitGroup
	for st := p.session.Next(); st != nil; st = p.session.Next() {
		running.Go(func() {
			st.Run(nil, 0)
			st.Settle()
		})
	}
	for int(p.started.Load()) < n {
		runtime.Gosched()
	}
	return running.Wait
}

// Handlers that return together have their responses sent together.
func TestResponsesThatEndTogetherLeaveTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const streams = 32
	release := make(chan struct{})
	p := newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		<-release
		hello(w, r)
	})
	wait := p.openStreams(streams)
	p.rest()
	before := p.sends
	close(release)
	wait()
	if n := strings.Count(p.rest(), "DATA hello end"); n != streams {
		t.Errorf("%d responses of %d", n, streams)
	}
	if n := p.sends - before; n > streams*3/4 { // one or two, but in race builds goroutines run in any order
		t.Errorf("%d responses took %d writes", streams, n)
	}
}

// A response does not wait for a handler that hangs.
func TestResponseDoesNotWaitForOthers(t *testing.T) {
	release := make(chan struct{})
	p := newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			<-release
		}
		hello(w, r)
	})
	p.open()
	p.request(1, true, ":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/hangs")
	p.get(3)
	p.receive()
	hanging, other := p.session.Next(), p.session.Next()
	done := make(chan struct{})
	go func() {
		defer close(done)
		hanging.Run(nil, 0)
		hanging.Settle()
	}()
	other.Run(nil, 0)
	other.Settle()
	p.wantRest("HEADERS 200, DATA hello end")
	close(release)
	<-done
	p.wantRest("HEADERS 200, DATA hello end")
}

// One goroutine gathers at a time, and none for a while after others have computed for long. The
// last handler's goroutine does not gather.
func TestGathering(t *testing.T) {
	release := make(chan struct{})
	p := newPeer(t, nil, func(http.ResponseWriter, *http.Request) { <-release })
	wait := p.openStreams(2)
	want := func(want string) {
		t.Helper()
		if got := p.session.Gathers(); got != want {
			t.Errorf("the caller gathers %s, want %s", got, want)
		}
	}
	want("here")
	want("elsewhere")
	p.session.EndGathering(h2.MaxGathering)
	want("here")
	p.session.EndGathering(h2.MaxGathering + 1)
	for range h2.Ungathered {
		want("not")
	}
	want("here")
	p.session.EndGathering(0)
	close(release)
	wait()
	want("not")
}

// No response is lost that another goroutine gathers, with any number of threads.
func TestNoGatheredResponseIsLost(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const streams = 16
	for _, threads := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(threads)
		for round := range 20 {
			release := make(chan struct{})
			p := newPeer(t, nil, func(w http.ResponseWriter, r *http.Request) {
				<-release
				for range len(r.URL.Path) + round {
					runtime.Gosched()
				}
				hello(w, r)
			})
			wait := p.openStreams(streams)
			p.rest()
			close(release)
			wait()
			if n := strings.Count(p.rest(), "DATA hello end"); n != streams {
				t.Fatalf("%d threads: %d responses of %d", threads, n, streams)
			}
		}
	}
}
