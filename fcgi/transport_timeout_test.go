package fcgi_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/fcgi"
)

// By default, connecting may take 10 seconds.
func TestDialTimeoutHasDefault(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{0: 10 * time.Second, time.Hour: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			tr := &fcgi.Transport{Addr: "pipe:1", DialTimeout: timeout,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}
			began := time.Now()
			_, err := tr.RoundTrip(get(t, address))
			var late net.Error
			if !errors.As(err, &late) || !late.Timeout() || time.Since(began) != want {
				t.Errorf("%v after %v, want %v", err, time.Since(began), want)
			}
		})
	}
}

// By default, idle connections are closed after 30 seconds.
func TestIdleTimeoutHasDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 5, DialContext: piped(t, func(p *peer, _ int) {
			for p.request() != nil {
				time.Sleep(time.Second)
				p.respond("\nbody")
			}
		})}
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() { must(t, tr, get(t, address), "body") })
			if i < 2 {
				time.Sleep(300 * time.Millisecond)
			}
		}
		all.Wait() // the connections became idle after 1 s, 1.3 s and 1.6 s
		for at, want := range []int{3, 2, 1, 0} {
			synctest.Wait()
			if tr.Idle() != want {
				t.Errorf("%d connections after step %d, want %d", tr.Idle(), at, want)
			}
			if at == 0 {
				time.Sleep(29*time.Second + 150*time.Millisecond)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if tr.Pools() != 0 {
			t.Error("the pool is not forgotten")
		}
	})
}
