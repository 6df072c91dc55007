package upstream

// leastConnMethod is least_conn: the server with the fewest connections for its weight.
func leastConnMethod() method {
	return method{slowStarts: true, make: noArguments(func(t *Turn) int { return leastConn(t.list.peers) })}
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
