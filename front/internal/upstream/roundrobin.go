package upstream

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
