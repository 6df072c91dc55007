package upstream

import "net/netip"

// ipModulus limits the sums of ip_hash, as in nginx.
const ipModulus = 6271

// byIP chooses by a client's address, of IPv4 its first three bytes, as ip_hash does: clients of a
// network get the same server. It returns -1 after too many tries.
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
