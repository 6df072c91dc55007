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
	// maxWalk is how often a hash or chance is asked again for a request whose servers cannot be used. After that it is
	// round robin's turn, as in nginx.
	maxWalk = 20
	// pointsPerWeight is how many points of a ring a server has for each unit of its weight, as in nginx.
	pointsPerWeight = 160
	// ipModulus bounds ip_hash's sums, as in nginx.
	ipModulus = 6271
)

// peer is a server at one address, as the ways of choosing see it.
type peer struct {
	weight    int
	effective int // the weight, less what failures have cost
	current   int // round robin's: the highest is next
	conns     int
	out       bool // it is not to be chosen this time
}

// smooth chooses by weights such that turns are spread out: nginx's smooth weighted round robin. Each peer gains what it
// weighs; the one with the most is chosen, and pays what all have gained. It returns -1 if all are out.
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

// leastConn chooses who has the fewest connections for its weight, and among equals by smooth.
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

// walk is how far a request's hash has come.
type walk struct {
	tries int    // in vain
	asked int    // how often the key was hashed
	hash  uint32 // or where on the ring it is
	begun bool
}

// byWeight returns the peer that holds the n-th unit of weight.
func byWeight(peers []peer, n int) int {
	for i := range peers {
		if n -= peers[i].weight; n < 0 {
			return i
		}
	}
	return len(peers) - 1
}

// byIP chooses by an address, of IPv4 its first three bytes, as ip_hash does. It returns -1 once it has walked for too long.
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

// ipKey is what of an address ip_hash looks at. Who has none, by a unix socket, counts as one client.
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

// byKey chooses by a text, as hash does: compatible with Cache::Memcached.
func (w *walk) byKey(peers []peer, total int, key string) int {
	for ; w.tries <= maxWalk; w.tries++ {
		sum := uint32(0)
		if w.asked > 0 {
			sum = crc32.ChecksumIEEE([]byte(strconv.Itoa(w.asked)))
		}
		w.asked++
		sum = crc32.Update(sum, crc32.IEEETable, []byte(key))
		w.hash += sum >> 16 & 0x7fff
		if i := byWeight(peers, int(w.hash)%total); !peers[i].out {
			return i
		}
	}
	return -1
}

// point is a place on a ring, and whose it is: an index into the names of servers.
type point struct {
	hash  uint32
	owner int
}

// ring places servers on a circle, as nginx does and libketama of Cache::Memcached::Fast: so a server that comes or goes
// moves only the keys next to its points.
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

// nameParts splits a server's name as it was configured.
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

// onRing chooses by a text and a ring. owners tells whose name a peer has.
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

// byChance chooses with the odds of weights. random returns one of the first n numbers.
func (w *walk) byChance(peers []peer, total int, random func(n int) int) int {
	for ; w.tries <= maxWalk; w.tries++ {
		if i := byWeight(peers, random(total)); !peers[i].out {
			return i
		}
	}
	return -1
}

// bestOfTwo chooses two by chance, and of these the one with fewer connections for its weight.
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
