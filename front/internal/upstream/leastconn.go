package upstream

// leastConn chooses the peer with the fewest connections for its weight, and among equals by
// smooth.
func leastConn(peers []peer) int {
	best, many := -1, false
	for i := range peers {
		p := &peers[i]
		switch {
		case p.out:
		case best < 0 || hasFewerConns(p, &peers[best]):
			best, many = i, false
		case !hasFewerConns(&peers[best], p):
			many = true
		}
	}
	if !many {
		return best
	}
	return smoothAmong(peers, func(i int) bool { return !hasFewerConns(&peers[best], &peers[i]) })
}
