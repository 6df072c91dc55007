package upstream

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

func weighted(weights ...int) []peer {
	peers := make([]peer, len(weights))
	for i, w := range weights {
		peers[i] = peer{weight: w, effective: w}
	}
	return peers
}

func letters(n int, choose func() int) string {
	var b strings.Builder
	for range n {
		b.WriteByte("abcdefgh"[choose()])
	}
	return b.String()
}

func TestLeastConnCountsConnectionsPerWeight(t *testing.T) {
	peers := weighted(1, 2, 1)
	for _, test := range []struct {
		conns [3]int
		want  string
	}{
		{[3]int{1, 1, 1}, "bbbb"},  // half as many for its weight
		{[3]int{0, 3, 0}, "acac"},  // equals take turns
		{[3]int{1, 2, 1}, "babcb"}, // by weights
		{[3]int{5, 9, 6}, "bb"},
	} {
		for i := range peers {
			peers[i].conns, peers[i].current = test.conns[i], 0
		}
		if got := letters(len(test.want), func() int { return leastConn(peers) }); len(got) != len(test.want) ||
			strings.Trim(got, test.want) != "" {
			t.Errorf("with %v connections %s, want a choice of %s", test.conns, got, test.want)
		}
	}
	peers[1].out = true
	for i := range peers {
		peers[i].conns = 3 * i
	}
	testkit.Equal(t, leastConn(peers), 0)
}

// within checks that counts are proportional to weights, up to some percent.
func within(t *testing.T, what string, counts []int, n int, weights []int, percents int) {
	t.Helper()
	total := 0
	for _, w := range weights {
		total += w
	}
	for i, got := range counts {
		want := n * weights[i] / total
		testkit.Between(t, got*100, want*(100-percents), want*(100+percents), "100 times the", what, "of", i)
	}
}

// fewer is the comparison of random two least_conn.
func fewer(peers []peer) func(a, b int) bool {
	return func(a, b int) bool { return hasFewerConns(&peers[a], &peers[b]) }
}

func TestRandomChoicesFollowWeights(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)).IntN
	peers := weighted(1, 3)
	counts := make([]int, 2)
	for range 20_000 {
		counts[new(walk).byChance(peers, 4, random)]++
	}
	within(t, "turns", counts, 20_000, []int{1, 3}, 5)
	peers[1].conns, peers[0].conns = 9, 1
	for range 100 {
		testkit.Between(t, new(walk).bestOfTwo(peers, 4, random, fewer(peers)), -1, 0, "the peer with fewer connections")
	}
	peers[0].out = true
	testkit.Equal(t, new(walk).bestOfTwo(peers, 4, random, fewer(peers)), -1, "the choice without a second peer")
}

// With many servers, the best of two keeps the load even, unlike a random choice.
func TestBestOfTwoIsEven(t *testing.T) {
	most := func(choose func(*walk, []peer, int, func(int) int) int) (n int) {
		random := rand.New(rand.NewPCG(3, 4)).IntN
		peers := weighted(slices.Repeat([]int{1}, 100)...)
		for range 10_000 {
			peers[choose(new(walk), peers, 100, random)].conns++
		}
		for _, p := range peers {
			n = max(n, p.conns)
		}
		return n
	}
	two := func(w *walk, peers []peer, total int, random func(int) int) int {
		return w.bestOfTwo(peers, total, random, fewer(peers))
	}
	testkit.Between(t, most((*walk).byChance), 115, 1000, "connections by chance")
	testkit.Between(t, most(two), 100, 110, "connections by the best of two")
}

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
		testkit.Equal(t, tried[0] == '3', false, "a draining server has a new client")
		if tried[0] == '2' {
			bySecond = tried[1:]
		}
	}
	testkit.Equal(t, len(bySecond), 32, "length of a hash, the route of a server without a route parameter")
	for range 3 {
		testkit.Equal(t, choose(bySecond)[0][0], '2', "the first server")
	}
	testkit.Equal(t, len(choose("nosuch")), 2, "servers that are tried for an unknown route")
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
				testkit.Between(t, share(), step.least, step.most, method, "requests of 100")
			}
		})
	}
}
