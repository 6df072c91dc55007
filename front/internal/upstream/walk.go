package upstream

// maxWalk is how often a hash or a random number is computed for a request whose servers are
// unavailable. After that, as in nginx, round robin counts.
const maxWalk = 20

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
