package client

import (
	"testing"
	"testing/synctest"
	"time"
)

// Idle connections that are taken in a short time are checked together. A check is valid for a
// short time, and until the connection is used, and finds one on which a byte has arrived.
func TestConnectionsTakenTogetherAreCheckedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, noisy = 12, 5
		p := &pool{limits: limits{maxIdlePerHost: all}}
		var conns [all]*conn
		for i := range conns {
			ours, theirs := sockets(t)
			conns[i] = open(t, p, "x", ours)
			if i == noisy {
				_, _ = theirs.Write([]byte("x"))
			}
		}
		for conns[noisy].probe.quiet() {
			time.Sleep(time.Microsecond)
		}
		checked := func() (n int) {
			for _, c := range conns {
				c.keep()
			}
			for i := range conns {
				c := open(t, p, "x", nil)
				if c != conns[all-1-i] {
					t.Fatal("connections are not taken in the order of their use")
				}
				if c.isQuiet {
					n++
				}
				if c.isAlive() == (c == conns[noisy]) {
					t.Errorf("connection %d is alive: %v", all-1-i, c.isAlive())
				}
			}
			return n
		}
		time.Sleep(time.Millisecond)
		if n := checked(); n != all-2 { // the first is checked alone
			t.Errorf("%d connections were checked together, want %d", n, all-2)
		}
		for _, c := range conns {
			c.keep()
		}
		if c := open(t, p, "x", nil); !c.isQuiet {
			t.Error("a connection was checked alone after many")
		}
		time.Sleep(quietFor)
		if c := conns[all-2]; c.quietAt == 0 || c.wasQuiet(p.now()) {
			t.Error("a check is valid for too long, or was not made")
		}
		for _, c := range conns {
			c.Close()
		}
	})
}
