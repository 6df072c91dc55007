package client

import (
	"context"
	"io"
	"net"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// keyOf returns the key of a host with a name.
func keyOf(name string) key { return key{host: name} }

// open gets a connection. If it gets a slot, it opens the given connection.
func open(t *testing.T, p *pool, name string, nc net.Conn) *conn {
	t.Helper()
	c := testkit.Value(p.get(t.Context(), keyOf(name), false))(t)
	if c.Conn == nil {
		c.open(nc)
	}
	return c
}

func pipe(t *testing.T) (net.Conn, net.Conn) {
	ours, other := testkit.Pair()
	t.Cleanup(func() { ours.Close(); other.Close() })
	return ours, other
}

func sockets(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return testkit.Connect(t, l, new(net.Dialer))
}

func want(t *testing.T, p *pool, n Count) {
	t.Helper()
	testkit.Equal(t, p.count(), n)
}

// If a get gives up when it gets a connection, the next one gets that. It does not count as a use.
func TestUnwantedConnectionGoesToNext(t *testing.T) {
	p := &pool{limits: limits{maxConns: 1, maxIdlePerHost: 1, maxUses: 2}}
	ours, _ := pipe(t)
	first := open(t, p, "x", ours)
	_, late := p.takeOrWait(keyOf("x"))
	_, next := p.takeOrWait(keyOf("x"))
	first.keep() // to the second, which does not receive it
	if p.stopWaiting(keyOf("x"), late); len(next) != 1 {
		t.Fatal("the third has no turn")
	}
	c := <-next
	if c.Conn != ours {
		t.Error("it has another connection")
	}
	c.drop()
	want(t, p, Count{})
}

// An idle connection is returned unchecked. If its check fails, another one or a slot replaces it.
func TestUnusableConnectionIsReplaced(t *testing.T) {
	p := &pool{limits: limits{maxIdlePerHost: 2}}
	theirs, other := sockets(t)
	rest, _ := sockets(t)
	first, second := open(t, p, "x", rest), open(t, p, "x", theirs)
	_, _ = other.Write([]byte("x"))
	testkit.WaitFor(t, "the byte", second.hasInput)
	first.keep()
	second.keep()
	c := open(t, p, "x", nil)
	if c != second || !c.hasInput() {
		t.Errorf("got %v", c.Conn)
	}
	if c = p.replace(c); c != first || c.hasInput() {
		t.Errorf("the connection was replaced by %v", c.Conn)
	}
	if c = p.replace(c); c.Conn != nil {
		t.Errorf("the last connection was replaced by %v", c.Conn)
	}
	c.drop()
	want(t, p, Count{})
}

func TestCanceledGetLeavesQueue(t *testing.T) {
	p := &pool{limits: limits{maxConns: 1}}
	first := testkit.Value(p.get(t.Context(), keyOf("x"), false))(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(net.ErrClosed)
	testkit.FailsWith(p.get(ctx, keyOf("x"), false))(t, net.ErrClosed)
	want(t, p, Count{Hosts: 1, Active: 1})
	first.drop()
	want(t, p, Count{})
}

// Connections go to waiting requests in the order of their arrival. There are no more than the limit.
func TestConnectionsGoToWaitingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{limits: limits{maxConns: 1, maxIdlePerHost: 1}}
		ours, _ := pipe(t)
		first := open(t, p, "x", ours)
		var mu sync.Mutex
		var order []int
		for i := range 20 {
			go func() {
				c, _ := p.get(context.Background(), keyOf("x"), false)
				testkit.Between(t, p.count().Active, 0, 1, "connections in use")
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				if i%3 == 0 { // a slot is passed on, too
					c.drop()
					return
				}
				if c.Conn == nil {
					nc, _ := pipe(t)
					c.open(nc)
				}
				c.keep()
			}()
			synctest.Wait()
		}
		first.keep()
		synctest.Wait()
		if len(order) != 20 || !slices.IsSorted(order) {
			t.Error(order)
		}
		p.closeIdle()
		want(t, p, Count{})
	})
}

// The limits on idle connections hold, and the oldest connection makes room.
func TestIdleLimitsHold(t *testing.T) {
	p := &pool{limits: limits{maxIdle: 3, maxIdlePerHost: 2}}
	var conns []*conn
	for _, key := range []string{"a", "a", "a", "b", "b"} {
		nc, _ := pipe(t)
		conns = append(conns, open(t, p, key, nc))
	}
	var kept []bool
	for _, c := range conns {
		kept = append(kept, c.keep())
	}
	testkit.Equal(t, kept, []bool{true, true, false, true, true}, "kept")
	want(t, p, Count{Hosts: 2, Idle: 3})
	if c := open(t, p, "a", nil); c != conns[1] {
		t.Error("the first is not the one that made room")
	} else if _, err := conns[0].Write([]byte("x")); err == nil {
		t.Error("it is still open")
	}
	if c := open(t, p, "b", nil); c != conns[4] {
		t.Error("not the connection that was used last")
	}
	p.closeIdle()
	want(t, p, Count{Hosts: 2, Active: 2})
	if conns[1].keep() {
		t.Error("kept after closeIdle")
	}
	if c, _ := p.get(t.Context(), keyOf("c"), false); c.Conn != nil {
		t.Error("a connection to another host")
	}
	if !conns[4].keep() {
		t.Error("not kept again")
	}
	p.closeIdle()
}

// An idle connection is closed after idleTimeout, watched or not.
func TestIdleConnectionIsClosedAfterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{limits: limits{maxIdlePerHost: 9, idleTimeout: time.Minute}}
		a, other := pipe(t)
		b, _ := pipe(t)
		first, second := open(t, p, "x", a), open(t, p, "x", b)
		first.keep()
		time.Sleep(30 * time.Second)
		second.keep()
		time.Sleep(31 * time.Second)
		want(t, p, Count{Hosts: 1, Idle: 1, Watched: 1})
		testkit.FailsWith(other.Read(make([]byte, 1)))(t, io.EOF, "the first connection")
		time.Sleep(30 * time.Second)
		want(t, p, Count{})
	})
}

// If a watched connection is in use when a byte arrives, its user reads what the watching goroutine has
// read. TestClosedIdleConnectionsAreDropped shows what happens to one that is idle.
func TestWatchedConnectionMayBeUsed(t *testing.T) {
	testkit.Long(t, "it waits until connections are watched")
	for _, connect := range []func(*testing.T) (net.Conn, net.Conn){pipe, sockets} {
		p := &pool{limits: limits{maxIdlePerHost: 9}}
		defer p.closeIdle()
		ours, other := connect(t)
		open(t, p, "x", ours).keep()
		for range 3 {
			testkit.WaitFor(t, "the connection to be watched", func() bool { return p.count().Watched == 1 })
			c := open(t, p, "x", nil)
			if c.Conn != ours {
				t.Fatal("another connection")
			}
			other.Write([]byte("hello"))
			testkit.Receives(t, c, "hello")
			c.keep()
		}
	}
}

// watchers returns the stacks of the goroutines that watch idle connections of all pools. A count
// of all goroutines would include the timer's, which may return late.
func watchers() []string {
	var stacks strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	return slices.DeleteFunc(strings.Split(stacks.String(), "\n\n"), func(stack string) bool {
		return !strings.Contains(stack, "created by github.com/tarehq/tare/internal/client.(*pool)")
	})
}

// One goroutine watches all idle sockets. It ends when they are closed, or when the only one is used.
func TestOneGoroutineWatchesAllSockets(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere each has one")
	}
	testkit.WaitFor(t, "the goroutines of other tests to end", func() bool { return len(watchers()) == 0 })
	for _, many := range []int{50, 1} {
		p := &pool{limits: limits{maxIdlePerHost: many}}
		var all []*conn
		for range many {
			ours, _ := sockets(t)
			all = append(all, open(t, p, "x", ours))
		}
		for _, c := range all {
			c.keep()
		}
		testkit.WaitFor(t, "all to be watched", func() bool { return p.count().Watched == many })
		testkit.Equal(t, len(watchers()), 1, "goroutines for", many, "idle connections")
		c := open(t, p, "x", nil)
		if many > 1 {
			p.closeIdle()
		}
		c.drop()
		testkit.WaitFor(t, "the goroutine to end", func() bool { return len(watchers()) == 0 })
		want(t, p, Count{})
	}
}

// A connection is used only as often, and for as long, as the limits allow.
func TestUsesAndAgeAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			limits limits
			uses   int // of the connection, one every hour
		}{"often": {limits{maxUses: 3}, 3}, "long": {limits{maxAge: 90 * time.Minute}, 3}, "no limit": {limits{}, 10}} {
			test.limits.maxIdlePerHost = 1
			p := &pool{limits: test.limits}
			for use := 1; use <= 10; use++ {
				c := testkit.Value(p.get(t.Context(), keyOf("x"), false))(t)
				if c.Conn == nil {
					if use > 1 {
						t.Fatalf("%s: another connection for use %d", name, use)
					}
					ours, _ := net.Pipe()
					c.open(ours)
				}
				if kept := c.keep(); kept != (use < test.uses || name == "no limit") {
					t.Errorf("%s: after %d uses kept is %v", name, use, kept)
				} else if !kept {
					break
				}
				time.Sleep(time.Hour)
			}
			p.closeIdle()
			synctest.Wait()
		}
	})
}
