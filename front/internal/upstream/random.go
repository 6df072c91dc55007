package upstream

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/tarehq/tare/front/conf"
)

// randomMethod is random [two [least_conn]].
func randomMethod() method {
	return method{make: func(args []string, _ []conf.Server) (balancer, error) {
		switch {
		case len(args) == 0:
			return func(t *Turn) int { return t.walk.byChance(t.list.peers, t.list.total, rand.IntN) }, nil
		case slices.Equal(args, []string{"two"}), slices.Equal(args, []string{"two", "least_conn"}):
			return func(t *Turn) int {
				peers := t.list.peers
				return t.walk.bestOfTwo(peers, t.list.total, rand.IntN,
					func(a, b int) bool { return hasFewerConns(&peers[a], &peers[b]) })
			}, nil
		}
		return nil, errors.New("want no arguments, two, or two least_conn")
	}}
}

func hasFewerConns(a, b *peer) bool { return a.conns*b.weight < b.conns*a.weight }

// byChance chooses at random, by weight. random returns one of the first n numbers.
func (w *walk) byChance(peers []peer, total int, random func(n int) int) int {
	for ; w.tries <= maxWalk; w.tries++ {
		if i := byWeight(peers, random(total)); !peers[i].out {
			return i
		}
	}
	return -1
}

// bestOfTwo chooses two peers at random, and of these the better one; the second if they are equal.
func (w *walk) bestOfTwo(peers []peer, total int, random func(n int) int, better func(a, b int) bool) int {
	first := -1
	for ; w.tries <= maxWalk; w.tries++ {
		i := byWeight(peers, random(total))
		switch {
		case i == first || peers[i].out:
		case first < 0:
			first = i
		case better(first, i):
			return first
		default:
			return i
		}
	}
	return -1
}
