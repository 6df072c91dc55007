package upstream

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
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

// The choices in nginx's commit message on smooth weighted round robin.
func TestSmoothSpreadsChoices(t *testing.T) {
	for want, peers := range map[string][]peer{
		"aabacaa" + "aabacaa": weighted(5, 1, 1),
		"abcabcabc":           weighted(1, 1, 1),
		"ababab":              weighted(7, 7),
		"aaaa":                weighted(3),
	} {
		if got := letters(len(want), func() int { return smooth(peers) }); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestSmoothSkipsUnavailablePeers(t *testing.T) {
	peers := weighted(2, 1, 1)
	peers[0].out = true
	if got := letters(6, func() int { return smooth(peers) }); got != "bcbcbc" {
		t.Error(got)
	}
	peers[1].out, peers[2].out = true, true
	if i := smooth(peers); i != -1 {
		t.Errorf("peer %d is not available", i)
	}
}

// A failed peer weighs less, and regains its weight with each choice.
func TestSmoothReducesWeightAfterFailures(t *testing.T) {
	peers := weighted(4, 4)
	peers[0].effective = 0
	counts := [2]int{}
	for range 8 {
		counts[smooth(peers)]++
	}
	if peers[0].effective != 4 || counts[0] == 0 || counts[0] >= counts[1] {
		t.Errorf("effective %d, turns %v", peers[0].effective, counts)
	}
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
	if i := leastConn(peers); i != 0 {
		t.Error(i)
	}
}

// The sums of ip_hash, computed by hand: ((89*113 + 127) % 6271 …).
func TestIPHashIsThatOfNginx(t *testing.T) {
	peers := weighted(1, 1, 2)
	choose := func(s string) int {
		return new(walk).byIP(peers, 4, netip.MustParseAddr(s))
	}
	hash := 89
	for _, b := range []int{192, 168, 7} {
		hash = (hash*113 + b) % 6271
	}
	if got, want := choose("192.168.7.1"), []int{0, 1, 2, 2}[hash%4]; got != want {
		t.Errorf("%d, want %d", got, want)
	}
	for _, last := range []string{"192.168.7.0", "192.168.7.255", "::ffff:192.168.7.4"} {
		if choose(last) != choose("192.168.7.1") {
			t.Errorf("%s gets a server other than that of its network", last)
		}
	}
	counts := make([]int, 3)
	for i := range 65536 {
		counts[choose(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}).String())]++
	}
	within(t, "networks", counts, 65536, []int{1, 1, 2}, 5)
	if a, b := choose("2001:db8::1"), choose("2001:db8::2"); a == b && choose("2001:db8::3") == a &&
		choose("2001:db8::4") == a && choose("2001:db8::5") == a {
		t.Error("the last bytes of IPv6 do not count")
	}
	if i := new(walk).byIP(peers, 4, netip.Addr{}); i < 0 {
		t.Error("a client without address gets no server")
	}
	for i := range peers {
		peers[i].out = true
	}
	if choose("10.0.0.1") != -1 {
		t.Error("a peer was chosen although none is available")
	}
}

// within checks that counts are proportional to weights, up to some percent.
func within(t *testing.T, what string, counts []int, n int, weights []int, percents int) {
	t.Helper()
	total := 0
	for _, w := range weights {
		total += w
	}
	for i, got := range counts {
		if want := n * weights[i] / total; got*100 < want*(100-percents) || got*100 > want*(100+percents) {
			t.Errorf("of %d %s %d have %d, want about %d", n, what, i, got, want)
		}
	}
}

func TestHashIsThatOfMemcached(t *testing.T) {
	peers := weighted(1, 2, 1)
	for _, key := range []string{"", "a", "/x?y"} {
		first := int(crc32.ChecksumIEEE([]byte(key)) >> 16 & 0x7fff)
		w := new(walk)
		if got, want := w.byKey(peers, 4, key), []int{0, 1, 1, 2}[first%4]; got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
		second := first + int(crc32.ChecksumIEEE([]byte("1"+key))>>16&0x7fff) // the second try
		if got, want := w.byKey(peers, 4, key), []int{0, 1, 1, 2}[second%4]; got != want {
			t.Errorf("%q again: %d, want %d", key, got, want)
		}
	}
	counts := make([]int, 3)
	for i := range 40_000 {
		counts[new(walk).byKey(peers, 4, strconv.Itoa(i))]++
	}
	within(t, "keys", counts, 40_000, []int{1, 2, 1}, 5)
}

func keysOf(names []string, weights []int, n int) []string {
	peers := weighted(weights...)
	owners := make([]int, len(names))
	for i := range owners {
		owners[i] = i
	}
	points := ring(names, weights)
	found := make([]string, n)
	for i := range found {
		found[i] = names[new(walk).onRing(peers, points, owners, "key"+strconv.Itoa(i))]
	}
	return found
}

// A removed server moves only its own keys; an added one gets its share.
func TestConsistentHashMovesFewKeys(t *testing.T) {
	names := []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "unix:/run/app"}
	const n = 20_000
	with, without := keysOf(names, []int{1, 1, 1, 1}, n), keysOf(names[:3], []int{1, 1, 1}, n)
	moved := 0
	for i := range with {
		if with[i] != without[i] {
			if moved++; with[i] != names[3] {
				t.Fatalf("key %d moved from %s to %s, which has not changed", i, without[i], with[i])
			}
		}
	}
	within(t, "keys moved", []int{moved}, n/4, []int{1}, 25)
	counts := make([]int, 4)
	for _, name := range keysOf(names, []int{1, 2, 1, 1}, n) {
		counts[slices.Index(names, name)]++
	}
	within(t, "keys", counts, n, []int{1, 2, 1, 1}, 25)
}

func TestRingHasPointsByWeight(t *testing.T) {
	points := ring([]string{"a:80", "b"}, []int{1, 2})
	if len(points) != 480 || !slices.IsSortedFunc(points,
		func(a, b point) int { return int(int64(a.hash) - int64(b.hash)) }) {
		t.Errorf("%d points", len(points))
	}
	// host, port, and the previous hash
	first := crc32.ChecksumIEEE([]byte("a\x0080\x00\x00\x00\x00"))
	if !slices.Contains(points, point{first, 0}) {
		t.Error("missing first point")
	}
	for name, want := range map[string][2]string{
		"a:80": {"a", "80"}, "a": {"a", ""}, "[::1]:8": {"[::1]", "8"}, "unix:/a:b": {"/a:b", ""}, "a:x": {"a:x", ""},
	} {
		if host, port := nameParts(name); host != want[0] || port != want[1] {
			t.Errorf("%s: %q %q", name, host, port)
		}
	}
	peers := weighted(1, 1)
	peers[0].out = true
	for i := range 100 {
		if at := new(walk).onRing(peers, points, []int{0, 1}, fmt.Sprint(i)); at == 0 {
			t.Error("an unavailable peer was chosen")
		}
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
		if i := new(walk).bestOfTwo(peers, 4, random, fewer(peers)); i != 0 && i != -1 {
			t.Error("the peer with more connections was chosen")
		}
	}
	peers[0].out = true
	if i := new(walk).bestOfTwo(peers, 4, random, fewer(peers)); i != -1 {
		t.Errorf("peer %d was chosen; want round robin", i)
	}
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
	if one, two := most((*walk).byChance), most(two); two > 110 || one < 115 {
		t.Errorf("at most %d and %d connections", one, two)
	}
}
