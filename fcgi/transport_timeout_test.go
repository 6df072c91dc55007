package fcgi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/fcgi"
)

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
	bubble("head of the second response, which is not retried", tr2, func(p *peer, n int) {
		if n > 0 {
			t.Error("another connection")
		}
		p.request()
		p.respond("\nbody")
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
	bubble("response of an application that reads no more", tr7, slow, func(t *testing.T, start time.Time) {
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
	bubble("the timer of a pool without connections", tr8, slow, func(t *testing.T, _ time.Time) {
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
			p.respond("\nbody")
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
