package fetch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// attemptOf starts an attempt of a request with a context, and a timeout of a minute.
func attemptOf(ctx context.Context, n *Pending) *attempt {
	r := &Request{upstream: &Upstream{ReadTimeout: time.Minute, Pending: n, Expired: context.Background()}}
	return r.startAttempt(ctx, "server")
}

// An attempt ends when its client leaves or its server is silent, from timersAfter on, or at once
// if Done was called.
func TestAttemptEndsWithClientOrTimeout(t *testing.T) {
	gone := errors.New("gone")
	cases := []struct {
		name     string
		received bool // Done is called at once
		leave    time.Duration
		want     error
		after    time.Duration
	}{
		{name: "pending", leave: time.Millisecond, want: gone, after: timersAfter},
		{name: "pending, with Done", received: true, leave: time.Millisecond, want: gone, after: time.Millisecond},
		{name: "old", leave: time.Second, want: gone, after: time.Second},
		{name: "silent", leave: time.Hour, want: errTimeout, after: timersAfter + time.Minute},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithCancelCause(t.Context())
			a, began := attemptOf(ctx, new(Pending)), time.Now()
			if c.received {
				a.Done()
			}
			time.AfterFunc(c.leave, func() { leave(gone) })
			value := make(chan time.Duration, 1)
			a.AfterFunc(func() { value <- time.Since(began) })
			if after := <-value; after != c.after || !errors.Is(a.Err(), c.want) ||
				!errors.Is(context.Cause(a), c.want) {
				t.Errorf("%s: %v after %v, want %v after %v", c.name, a.Err(), after, c.want, c.after)
			}
			<-a.Done()
			if a.stop(); a.wasUnobserved {
				t.Errorf("%s: it is used again, although others have it", c.name)
			}
			leave(nil)
		})
	}
}

// A waiter that is removed is not notified, and an attempt without waiters may be reused.
func TestUnobservedAttemptIsReusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(Pending)
		var all []*attempt
		for range 3 {
			a := attemptOf(t.Context(), n)
			for range 2 {
				if stop := a.AfterFunc(func() { t.Error("notified") }); !stop() || stop() {
					t.Error("it does not stop once")
				}
			}
			all = append(all, a)
		}
		for _, i := range []int{1, 2, 0} {
			a := all[i]
			if !a.stop() || a.stop() || !a.wasUnobserved || !errors.Is(a.Err(), context.Canceled) {
				t.Errorf("%d: ended, unobserved %v, %v", i, a.wasUnobserved, a.Err())
			}
			if i == 2 && !slices.Equal([]*attempt{n.first, n.last}, []*attempt{all[0], all[0]}) {
				t.Error("the pending attempts are not in order")
			}
		}
		time.Sleep(2 * timersAfter)
		synctest.Wait()
		if n.first != nil || n.last != nil || n.timerRuns {
			t.Error("the timer runs without pending attempts")
		}
	})
}

// Servers of gRPC close connections that send PINGs more often than every 5 minutes, and with them
// streams that are silent.
func TestPINGsAreRare(t *testing.T) {
	if d := http2Config(KeepAlive{}, false).Settings.HTTP2.SendPingTimeout; d <= 5*time.Minute {
		t.Error(d)
	}
}
