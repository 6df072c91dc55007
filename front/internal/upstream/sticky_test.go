package upstream

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// stickyGroup returns a group of three servers: the first has a route, the last drains.
func stickyGroup(t *testing.T) *Group {
	c := conf.Upstream{Servers: servers("1", "2", "3"), Sticky: new(conf.Sticky)}
	c.Servers[0].Route, c.Servers[2].Drain, c.Servers[2].Route = "a", true, "c"
	return group(t, c, new(State), nil)
}

func TestPreferredServerIsChosen(t *testing.T) {
	g := stickyGroup(t)
	choose := func(route string) (tried []string) {
		turn := g.Turn("", netip.Addr{})
		turn.Prefer(route)
		for {
			addr, err := turn.Next()
			if err != nil {
				return tried
			}
			tried = append(tried, port(addr)+turn.Route())
			turn.Done(false)
		}
	}
	for range 3 {
		if got := choose("a"); got[0] != "1a" || len(got) != 2 {
			t.Errorf("tried %v, want 1 first", got)
		}
	}
	for range 2 {
		if got := choose("c"); got[0] != "3c" || len(got) != 3 {
			t.Errorf("a client of a draining server: tried %v", got)
		}
	}
	var bySecond string
	for _, tried := range choose("") {
		if tried[0] == '3' {
			t.Errorf("a draining server got a new client")
		}
		if tried[0] == '2' {
			bySecond = tried[1:]
		}
	}
	if len(bySecond) != 32 { // a hash
		t.Errorf("route %q of a server without a route parameter", bySecond)
	}
	for range 3 {
		if got := choose(bySecond); got[0][0] != '2' {
			t.Errorf("tried %v, want 2 first", got)
		}
	}
	if got := choose("nosuch"); len(got) != 2 {
		t.Errorf("an unknown route: tried %v", got)
	}
}

// A server that has become available again gets requests slowly.
func TestSlowStartRaisesWeight(t *testing.T) {
	for _, method := range []string{"", "least_conn"} {
		synctest.Test(t, func(t *testing.T) {
			c := conf.Upstream{Servers: servers("1", "2"), Balance: balance(method)}
			c.Servers[0].SlowStart = 100 * time.Second
			g := group(t, c, new(State), nil)
			for !slices.Contains(tryAll(g, "2"), "1") {
			}
			time.Sleep(defaultFailTimeout + time.Second)
			for !slices.Contains(tryAll(g, "1", "2"), "1") { // the trial
			}
			share := func() (n int) {
				for range 100 {
					if tryAll(g, "1", "2")[0] == "1" {
						n++
					}
				}
				return n
			}
			for _, step := range []struct {
				after       time.Duration
				least, most int
			}{{10 * time.Second, 5, 13}, {40 * time.Second, 28, 38}, {49 * time.Second, 45, 52}, {time.Hour, 50, 50}} {
				time.Sleep(step.after)
				if n := share(); n < step.least || n > step.most {
					t.Errorf("%q: %d of 100 requests, want %d to %d", method, n, step.least, step.most)
				}
			}
		})
	}
}
