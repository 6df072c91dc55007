package upstream

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// group returns a group that is closed with the test.
func group(t *testing.T, c conf.Upstream, s *State, lookup Lookup) *Group {
	t.Helper()
	g := testkit.Value(New(c, s, Options{system: lookup}))(t)
	t.Cleanup(g.Close)
	return g
}

// balance returns a load balancing method.
func balance(name string, args ...conf.Text) conf.Balance {
	return conf.Balance{Method: name, Args: args}
}

// port returns the port of an address, which names a server in these tests.
func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// tryAll makes attempts until a server that is up responses, and returns the servers tried.
func tryAll(g *Group, up ...string) (tried []string) {
	turn := g.Turn("", netip.Addr{})
	for {
		addr, err := turn.Next()
		if err != nil {
			return append(tried, "none")
		}
		tried = append(tried, port(addr))
		ok := slices.Contains(up, port(addr))
		if turn.Done(!ok); ok {
			return tried
		}
	}
}

func servers(addrs ...string) []conf.Server {
	all := make([]conf.Server, len(addrs))
	for i, a := range addrs {
		all[i].Addr = "127.0.0.1:" + a
	}
	return all
}

// check compares the servers tried.
func check(t *testing.T, what string, got []string, want string) {
	t.Helper()
	testkit.Equal(t, strings.Join(got, " "), want, what, "tries")
}

// A failed server gets no requests for a while, and then one. If that succeeds, the server is
// available again.
func TestFailedServerGetsOneTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := group(t, conf.Upstream{Servers: servers("1", "2")}, new(State), nil)
		check(t, "the first time", tryAll(g, "2"), "1 2")
		for range 5 {
			check(t, "while it rests", tryAll(g, "2"), "2")
		}
		time.Sleep(defaultFailTimeout + time.Second)
		turn := g.Turn("", netip.Addr{})
		for turns := 0; ; turns++ { // the failure has reduced its weight
			if addr, _ := turn.Next(); port(addr) == "1" {
				break
			}
			if turn.Done(false); turns == 5 {
				t.Fatal("no trial")
			}
			turn = g.Turn("", netip.Addr{})
		}
		for range 3 {
			check(t, "during the trial", tryAll(g, "2"), "2")
		}
		turn.Done(true)
		check(t, "after it", tryAll(g, "2"), "2")
		time.Sleep(defaultFailTimeout + time.Second)
		testkit.Equal(t, slices.Contains(several(g), "1"), true, "a second trial")
		counts := make(map[string]int)
		for range 10 {
			counts[tryAll(g, "1", "2")[0]]++
		}
		testkit.Equal(t, counts["1"], 5, "requests after a successful trial", counts)
	})
}

func TestSuccessResetsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := conf.Upstream{Servers: servers("1", "2")}
		c.Servers[0].MaxFails = 2
		c.Servers[1].Down = true
		g := group(t, c, new(State), nil)
		for range 5 {
			check(t, "a failure", tryAll(g), "1 none")
			time.Sleep(defaultFailTimeout + time.Second)
			check(t, "it is well", tryAll(g, "1"), "1")
		}
	})
}

func TestMaxConnsIsRespected(t *testing.T) {
	c := conf.Upstream{Servers: servers("1", "2")}
	c.Servers[0].MaxConns, c.Servers[1].MaxConns = 1, 2
	g := group(t, c, new(State), nil)
	var turns []*Turn
	var tried []string
	for range 4 {
		turn := g.Turn("", netip.Addr{})
		addr, err := turn.Next()
		if err == nil {
			turns = append(turns, &turn)
			tried = append(tried, port(addr))
		} else {
			tried = append(tried, "none")
		}
	}
	check(t, "connections", tried, "1 2 2 none")
	turns[0].Done(false)
	check(t, "there is room", tryAll(g, "1"), "1")
}

// The state of an address survives a reload; that of a removed address does not.
func TestStateSurvivesReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(State)
		before := testkit.Value(New(conf.Upstream{Servers: servers("1", "2")}, s, Options{}))(t)
		check(t, "before", tryAll(before, "2"), "1 2")
		busy := before.Turn("", netip.Addr{})
		if addr, _ := busy.Next(); port(addr) != "2" {
			t.Fatal(addr)
		}
		c := conf.Upstream{Balance: balance("least_conn"), Servers: servers("1", "2", "3")}
		c.Servers[1].Weight = 5
		after := group(t, c, s, nil)
		before.Close()
		check(t, "after: 1 still rests, 2 has a connection", tryAll(after, "2", "3"), "3")
		busy.Done(false)
		time.Sleep(time.Minute)
		testkit.Equal(t, slices.Contains(tryAll(after, "1"), "1"), true, "server 1 gets requests")
		testkit.Equal(t, len(s.known), 3, "addresses with a state")
		after2 := group(t, conf.Upstream{Servers: servers("3")}, s, nil)
		check(t, "the last", tryAll(after2, "3"), "3")
	})
}

func TestStateOfRemovedAddressIsReleased(t *testing.T) {
	s := new(State)
	for range 3 {
		g := testkit.Value(New(conf.Upstream{Servers: servers("1", "1", "2")}, s, Options{}))(t)
		tryAll(g)
		g.Close()
	}
	testkit.Equal(t, len(s.known), 0, "addresses with a state")
}

func TestInvalidConfigsAreRejected(t *testing.T) {
	for name, c := range map[string]conf.Upstream{
		"no servers": {}, "weight": {Servers: []conf.Server{{Addr: "127.0.0.1", Weight: -1}}},
		"max_conns":      {Servers: []conf.Server{{Addr: "127.0.0.1", MaxConns: -1}}},
		"fail_timeout":   {Servers: []conf.Server{{Addr: "127.0.0.1", FailTimeout: -1}}},
		"ring":           {Balance: balance("hash", "$k", "consistent"), Servers: []conf.Server{{Addr: "127.0.0.1", Weight: 1 << 20}}},
		"method":         {Balance: balance("nosuch"), Servers: servers("1")},
		"no key":         {Balance: balance("hash"), Servers: servers("1")},
		"hash argument":  {Balance: balance("hash", "$k", "sometimes"), Servers: servers("1")},
		"many arguments": {Balance: balance("hash", "$k", "consistent", "consistent"), Servers: servers("1")},
		"argument":       {Balance: balance("least_conn", "two"), Servers: servers("1")},
		"random three":   {Balance: balance("random", "three"), Servers: servers("1")},
		"only backups":   {Servers: []conf.Server{{Addr: "127.0.0.1", Backup: true}}},
	} {
		testkit.Fails(New(c, new(State), Options{}))(t, "", name)
	}
}

// A simulation with servers of different speeds under a bearable load; one of them stops and
// returns. Each request has at most two attempts. Only attempts on the stopped server fail, and
// each server gets its share.
func TestSimulationOfAStoppedServer(t *testing.T) {
	for name, balance := range map[string]conf.Balance{"round robin": {}, "least_conn": balance("least_conn"),
		"random two": balance("random", "two")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, balance) })
		})
	}
}

func simulate(t *testing.T, balance conf.Balance) {
	c := conf.Upstream{Balance: balance, Servers: servers("1", "2", "3")}
	c.Servers[0].Weight = 2
	g := group(t, c, new(State), nil)
	dead := func() bool { return time.Since(time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)).Abs() < 20*time.Second }
	var mu sync.Mutex
	responses, failures := make(map[string]int), 0
	var all sync.WaitGroup
	for range 12_000 { // 100 per second, for two minutes
		all.Go(func() {
			turn := g.Turn("", netip.Addr{})
			for {
				addr, err := turn.Next()
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(40 * time.Millisecond)
				failed := port(addr) == "2" && dead()
				turn.Done(failed)
				mu.Lock()
				if failed {
					failures++
				} else {
					responses[port(addr)]++
				}
				mu.Unlock()
				if !failed {
					return
				}
			}
		})
		time.Sleep(10 * time.Millisecond)
	}
	all.Wait()
	// a few at once before the first failure is recorded, then one trial in ten seconds
	testkit.Between(t, failures, 1, 15, "requests to the dead server")
	testkit.Equal(t, responses["1"]+responses["2"]+responses["3"], 12_000, "responses")
	if a := responses; a["2"] < 1500 || a["3"] < 2500 || a["1"] < a["3"]*3/2 {
		t.Errorf("responses: %v", a)
	}
	testkit.Equal(t, g.state.known["127.0.0.1:1"].value.conns, 0, "connections that remain")
}

// A group has at most maxServers addresses.
func TestGroupIsLimitedToMaxServers(t *testing.T) {
	for n, want := range map[int]bool{maxServers: true, maxServers + 1: false} {
		var c conf.Upstream
		for i := range n {
			c.Servers = append(c.Servers, conf.Server{Addr: fmt.Sprintf("127.%d.%d.%d:80", 1+i>>16, i>>8&0xff, i&0xff)})
		}
		g, err := New(c, new(State), Options{})
		testkit.Equal(t, err == nil, want, n, "servers:", err)
		if err == nil {
			g.Close()
		}
	}
}

func TestStatusListsAllAddresses(t *testing.T) {
	c := conf.Upstream{Servers: append(servers("1", "2", "3", "4"), conf.Server{Addr: "127.0.0.1:5", Backup: true})}
	c.Servers[2].Down = true
	g := group(t, c, new(State), nil)
	first := g.Turn("", netip.Addr{})
	testkit.Equal(t, port(testkit.Value(first.Next())(t)), "1")
	first.Done(true)
	second := g.Turn("", netip.Addr{})
	testkit.Equal(t, port(testkit.Value(second.Next())(t)), "2")
	want := []Status{
		{Addr: "127.0.0.1:1", Resting: true}, {Addr: "127.0.0.1:2", Conns: 1}, {Addr: "127.0.0.1:3", Down: true},
		{Addr: "127.0.0.1:4"}, {Addr: "127.0.0.1:5"},
	}
	testkit.Equal(t, fmt.Sprint(g.Status()), fmt.Sprint(want))
	second.Done(false)
}

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
		testkit.Between(t, new(walk).bestOfTwo(peers, 4, random), -1, 0, "the peer with fewer connections")
	}
	peers[0].out = true
	testkit.Equal(t, new(walk).bestOfTwo(peers, 4, random), -1, "the choice without a second peer")
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
	testkit.Between(t, most((*walk).byChance), 115, 1000, "connections by chance")
	testkit.Between(t, most((*walk).bestOfTwo), 100, 110, "connections by the best of two")
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
