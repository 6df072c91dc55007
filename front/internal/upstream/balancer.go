package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
)

const (
	// pointsPerWeight is the number of points on the ring per unit of weight, as in nginx.
	pointsPerWeight = 160
	// maxRing limits the total weight of a group with a consistent hash.
	maxRing = 16_384
	// ipModulus limits the sums of ip_hash, as in nginx.
	ipModulus = 6271
	// maxWalk is how often a hash or a random number is computed for a request whose servers are
	// unavailable. After that, as in nginx, round robin counts.
	maxWalk = 20
)

// balancer returns the index of an available peer of the turn's list, or -1 to leave the choice to
// round robin. It is called only if there are several peers.
type balancer func(t *Turn) int

// setBalance sets what depends on the load balancing method. A new method is a case here, and a row
// in package nginxconf's table.
func (g *Group) setBalance() (err error) {
	method, args := g.config.Balance.Method, g.config.Balance.Args
	if method == "hash" {
		if len(args) == 0 || args[0] == "" {
			return errors.New("hash requires a key")
		}
		g.key, args = args[0], args[1:]
	}
	for _, arg := range args {
		method += " " + string(arg)
	}
	respectsSlowStart := false
	switch method {
	case "":
		g.balance, respectsSlowStart = func(t *Turn) int { return smooth(t.list.peers) }, true
	case "least_conn":
		g.balance, respectsSlowStart = func(t *Turn) int { return leastConn(t.list.peers) }, true
	case "ip_hash":
		g.balance, g.usesClient = func(t *Turn) int { return t.walk.byIP(t.list.peers, t.list.total, t.client) }, true
	case "hash":
		g.balance = func(t *Turn) int { return t.walk.byKey(t.list.peers, t.list.total, t.key) }
	case "hash consistent":
		var points []point
		points, err = ring(g.config.Servers)
		g.balance = func(t *Turn) int { return t.walk.onRing(t.list, points, t.key) }
	case "random":
		g.balance = func(t *Turn) int { return t.walk.byChance(t.list.peers, t.list.total, rand.IntN) }
	case "random two", "random two least_conn":
		g.balance = func(t *Turn) int { return t.walk.bestOfTwo(t.list.peers, t.list.total, rand.IntN) }
	default:
		return fmt.Errorf("unsupported load balancing method %q", method)
	}
	g.slowStarts = respectsSlowStart &&
		slices.ContainsFunc(g.config.Servers, func(s conf.Server) bool { return s.SlowStart > 0 })
	return err
}

// peer is a server at one address, as the load balancing methods see it.
type peer struct {
	weight    int
	effective int // the weight, reduced by failures
	step      int // how much of the weight is regained with each choice
	current   int // of round robin: the highest is next
	conns     int
	out       bool // not available this time
}

func (p *peer) hasFewerConns(other *peer) bool { return p.conns*other.weight < other.conns*p.weight }

// smooth is nginx's smooth weighted round robin, which spreads the requests of a peer. Each peer
// gains its weight. The one with the most is chosen, and loses the sum of all weights. smooth
// returns -1 if no peer is available.
func smooth(peers []peer) int { return smoothAmong(peers, func(int) bool { return true }) }

func smoothAmong(peers []peer, among func(i int) bool) int {
	best, total := -1, 0
	for i := range peers {
		p := &peers[i]
		if p.out || !among(i) {
			continue
		}
		p.current += p.effective
		total += p.effective
		p.effective = min(p.weight, p.effective+max(p.step, 1))
		if best < 0 || p.current > peers[best].current {
			best = i
		}
	}
	if best >= 0 {
		peers[best].current -= total
	}
	return best
}

// leastConn chooses the peer with the fewest connections for its weight, and among equals by
// smooth.
func leastConn(peers []peer) int {
	best, many := -1, false
	for i := range peers {
		p := &peers[i]
		switch {
		case p.out:
		case best < 0 || p.hasFewerConns(&peers[best]):
			best, many = i, false
		case !peers[best].hasFewerConns(p):
			many = true
		}
	}
	if !many {
		return best
	}
	return smoothAmong(peers, func(i int) bool { return !peers[best].hasFewerConns(&peers[i]) })
}

// walk is the state of a request's hash.
type walk struct {
	tries  int    // failed ones
	hashes int    // number of hashes of the key
	hash   uint32 // or the position on the ring
	begun  bool
}

// choose returns the first available peer with the units of weight that next returns. It returns -1
// after too many tries.
func (w *walk) choose(peers []peer, next func() int) int {
	for ; w.tries <= maxWalk; w.tries++ {
		if i := byWeight(peers, next()); !peers[i].out {
			return i
		}
	}
	return -1
}

// byWeight returns the peer with the n-th unit of weight.
func byWeight(peers []peer, n int) int {
	for i := range peers {
		if n -= peers[i].weight; n < 0 {
			return i
		}
	}
	return len(peers) - 1
}

// byChance chooses at random, by weight. random returns one of the first n numbers.
func (w *walk) byChance(peers []peer, total int, random func(n int) int) int {
	return w.choose(peers, func() int { return random(total) })
}

// bestOfTwo chooses two peers at random, and of these the one with fewer connections; the second if
// they are equal.
func (w *walk) bestOfTwo(peers []peer, total int, random func(n int) int) int {
	first := -1
	for ; w.tries <= maxWalk; w.tries++ {
		i := byWeight(peers, random(total))
		switch {
		case i == first || peers[i].out:
		case first < 0:
			first = i
		case peers[first].hasFewerConns(&peers[i]):
			return first
		default:
			return i
		}
	}
	return -1
}

// byIP chooses by a client's address, of IPv4 its first three bytes, as ip_hash does: clients of a
// network get the same server.
func (w *walk) byIP(peers []peer, total int, client netip.Addr) int {
	if !w.begun {
		w.begun, w.hash = true, 89
	}
	key := ipKey(client)
	return w.choose(peers, func() int {
		for _, b := range key {
			w.hash = (w.hash*113 + uint32(b)) % ipModulus
		}
		return int(w.hash) % total
	})
}

// ipKey returns the part of an address that ip_hash uses. All clients without an address, as over a
// unix socket, count as one.
func ipKey(client netip.Addr) []byte {
	client = client.Unmap()
	switch b := client.AsSlice(); {
	case client.Is4():
		return b[:3]
	case client.Is6():
		return b
	}
	return make([]byte, 3)
}

// byKey chooses by a key, as hash does: compatible with Cache::Memcached. It returns -1 for an empty
// key.
func (w *walk) byKey(peers []peer, total int, key string) int {
	if key == "" {
		return -1
	}
	return w.choose(peers, func() int {
		sum := uint32(0)
		if w.hashes > 0 {
			sum = crc32.ChecksumIEEE([]byte(strconv.Itoa(w.hashes)))
		}
		w.hashes++
		sum = crc32.Update(sum, crc32.IEEETable, []byte(key))
		w.hash += sum >> 16 & 0x7fff
		return int(w.hash) % total
	})
}

// point is a position on the ring, with its owner: an index into the servers.
type point struct {
	hash  uint32
	owner int
}

// ring places servers on a circle, as nginx and libketama (Cache::Memcached::Fast) do. If a server
// is added or removed, only the keys next to its points move. The names of servers count, not their
// addresses.
func ring(servers []conf.Server) (points []point, err error) {
	total := 0
	for owner := range servers {
		s := &servers[owner]
		if total += s.Weight; total > maxRing {
			return nil, fmt.Errorf("the total weight of a consistent hash is greater than %d", maxRing)
		}
		host, port := grammar.SplitPort(s.Addr, "")
		if path, ok := strings.CutPrefix(s.Addr, "unix:"); ok {
			host, port = path, ""
		}
		base := crc32.ChecksumIEEE([]byte(host + "\x00" + port))
		var previous [4]byte
		for range s.Weight * pointsPerWeight {
			h := crc32.Update(base, crc32.IEEETable, previous[:])
			points = append(points, point{h, owner})
			previous = [4]byte{byte(h), byte(h >> 8), byte(h >> 16), byte(h >> 24)}
		}
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	return slices.CompactFunc(points, func(a, b point) bool { return a.hash == b.hash }), nil
}

// onRing is byKey with the ring.
func (w *walk) onRing(l *list, points []point, key string) int {
	if !w.begun {
		w.begun = true
		sum := crc32.ChecksumIEEE([]byte(key))
		at, _ := slices.BinarySearchFunc(points, sum, func(p point, h uint32) int { return cmp.Compare(p.hash, h) })
		w.hash = uint32(at)
	}
	for ; key != "" && w.tries <= maxWalk; w.tries++ {
		owner := points[int(w.hash)%len(points)].owner
		if i := smoothAmong(l.peers, func(i int) bool { return l.members[i].owner == owner }); i >= 0 {
			return i
		}
		w.hash++
	}
	return -1
}
