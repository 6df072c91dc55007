package upstream

import (
	"cmp"
	"hash/crc32"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxWalk is how often a hash or a random number is computed for a request whose servers are
	// unavailable. After that, as in nginx, round robin counts.
	maxWalk = 20
	// pointsPerWeight is the number of points on the ring per unit of weight, as in nginx.
	pointsPerWeight = 160
	// ipModulus limits the sums of ip_hash, as in nginx.
	ipModulus = 6271
)

// peer is a server at one address, as the load balancing methods see it.
type peer struct {
	weight    int
	effective int // the weight, reduced by failures
	current   int // of round robin: the highest is next
	conns     int
	out       bool // not available this time
}

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
		if p.effective < p.weight {
			p.effective++
		}
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
		case best < 0 || p.conns*peers[best].weight < peers[best].conns*p.weight:
			best, many = i, false
		case p.conns*peers[best].weight == peers[best].conns*p.weight:
			many = true
		}
	}
	if !many {
		return best
	}
	least := peers[best]
	return smoothAmong(peers, func(i int) bool { return peers[i].conns*least.weight == least.conns*peers[i].weight })
}

// walk is the state of a request's hash.
type walk struct {
	tries  int    // failed ones
	hashes int    // number of hashes of the key
	hash   uint32 // or the position on the ring
	begun  bool
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

// byIP chooses by a client's address, of IPv4 its first three bytes, as ip_hash does. It returns -1
// after too many tries.
func (w *walk) byIP(peers []peer, total int, client netip.Addr) int {
	if !w.begun {
		w.begun, w.hash = true, 89
	}
	key := ipKey(client)
	for ; w.tries <= maxWalk; w.tries++ {
		for _, b := range key {
			w.hash = (w.hash*113 + uint32(b)) % ipModulus
		}
		if i := byWeight(peers, int(w.hash)%total); !peers[i].out {
			return i
		}
	}
	return -1
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

// byKey chooses by a key, as hash does: compatible with Cache::Memcached.
func (w *walk) byKey(peers []peer, total int, key string) int {
	for ; w.tries <= maxWalk; w.tries++ {
		sum := uint32(0)
		if w.hashes > 0 {
			sum = crc32.ChecksumIEEE([]byte(strconv.Itoa(w.hashes)))
		}
		w.hashes++
		sum = crc32.Update(sum, crc32.IEEETable, []byte(key))
		w.hash += sum >> 16 & 0x7fff
		if i := byWeight(peers, int(w.hash)%total); !peers[i].out {
			return i
		}
	}
	return -1
}

// point is a position on the ring, with its owner: an index into the names of servers.
type point struct {
	hash  uint32
	owner int
}

// ring places servers on a circle, as nginx and libketama (Cache::Memcached::Fast) do. If a server
// is added or removed, only the keys next to its points move.
func ring(names []string, weights []int) []point {
	var points []point
	for owner, name := range names {
		host, port := nameParts(name)
		base := crc32.ChecksumIEEE([]byte(host + "\x00" + port))
		var previous [4]byte
		for range weights[owner] * pointsPerWeight {
			h := crc32.Update(base, crc32.IEEETable, previous[:])
			points = append(points, point{h, owner})
			previous = [4]byte{byte(h), byte(h >> 8), byte(h >> 16), byte(h >> 24)}
		}
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
	return slices.CompactFunc(points, func(a, b point) bool { return a.hash == b.hash })
}

// nameParts splits a server's name as configured.
func nameParts(name string) (host, port string) {
	if path, ok := strings.CutPrefix(name, "unix:"); ok {
		return path, ""
	}
	i := strings.LastIndexByte(name, ':')
	if i < 0 || strings.Trim(name[i+1:], "0123456789") != "" {
		return name, ""
	}
	return name[:i], name[i+1:]
}

// onRing chooses by a key and the ring. owners contains the owner of each peer.
func (w *walk) onRing(peers []peer, points []point, owners []int, key string) int {
	if len(points) == 0 {
		return -1
	}
	if !w.begun {
		w.begun = true
		sum := crc32.ChecksumIEEE([]byte(key))
		at, _ := slices.BinarySearchFunc(points, sum, func(p point, h uint32) int { return cmp.Compare(p.hash, h) })
		w.hash = uint32(at)
	}
	for ; w.tries <= maxWalk; w.tries++ {
		owner := points[int(w.hash)%len(points)].owner
		if i := smoothAmong(peers, func(i int) bool { return owners[i] == owner }); i >= 0 {
			return i
		}
		w.hash++
	}
	return -1
}

// byChance chooses at random, by weight. random returns one of the first n numbers.
func (w *walk) byChance(peers []peer, total int, random func(n int) int) int {
	for ; w.tries <= maxWalk; w.tries++ {
		if i := byWeight(peers, random(total)); !peers[i].out {
			return i
		}
	}
	return -1
}

// bestOfTwo chooses two peers at random, and of these the one with fewer connections for its
// weight.
func (w *walk) bestOfTwo(peers []peer, total int, random func(n int) int) int {
	first := -1
	for ; w.tries <= maxWalk; w.tries++ {
		i := byWeight(peers, random(total))
		switch {
		case i == first || peers[i].out:
		case first < 0:
			first = i
		case peers[i].conns*peers[first].weight > peers[first].conns*peers[i].weight:
			return first
		default:
			return i
		}
	}
	return -1
}
