package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
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
)

// hashMethod is hash KEY [consistent]: requests with the same key get the same server.
func hashMethod() method {
	return method{hasKey: true, make: func(args []string, servers []conf.Server) (balancer, error) {
		switch {
		case len(args) == 0:
			return func(t *Turn) int { return t.walk.byKey(t.list.peers, t.list.total, t.key) }, nil
		case len(args) > 1 || args[0] != "consistent":
			return nil, fmt.Errorf("invalid argument %q: want consistent", args[0])
		}
		points, err := ring(servers)
		return func(t *Turn) int { return t.walk.onRing(t.list, points, t.key) }, err
	}}
}

// byKey chooses by a key, as hash does: compatible with Cache::Memcached. It returns -1 for an empty
// key, and after too many tries.
func (w *walk) byKey(peers []peer, total int, key string) int {
	for ; key != "" && w.tries <= maxWalk; w.tries++ {
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
			return nil, errors.New("the total weight of a consistent hash is greater than " + strconv.Itoa(maxRing))
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
