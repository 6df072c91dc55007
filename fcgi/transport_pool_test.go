package fcgi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/fcgi"
)

// drain receives until the end of the connection.
func (p *peer) drain() {
	for _, ok := p.next(); ok; _, ok = p.next() {
	}
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
					p.respond("\nbody")
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
				p.respond("\nbody")
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
			p.respond("\nbody")
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
	eventually(t, "no connection is left",
		func() bool { return tr.Idle() == 0 && conns.Load() == 0 && tr.Pools() == 0 })
	round(1, true)
	if tr.Idle() != 1 {
		t.Error("no connection is kept after CloseIdleConnections")
	}
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
