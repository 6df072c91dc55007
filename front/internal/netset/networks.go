// Package netset finds the first network of a list that has an address.
package netset

import (
	"net/netip"
	"slices"
)

// Set finds the first network of a list with an address. It looks up the prefix lengths that
// occur, until no later network can come first. An invalid address is that of a unix socket.
type Set struct {
	firsts  map[netip.Prefix]int
	lengths []netLength
	unix    int // index + 1; 0 means none
	all     int // index + 1; 0 means none
}

// netLength is a prefix length of one address family.
type netLength struct {
	v4    bool
	bits  int
	first int // index of the first such network
}

// Add adds a network, whose index is higher than those before.
func (n *Set) Add(p netip.Prefix, i int) {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	p = p.Masked()
	if n.firsts == nil {
		n.firsts = make(map[netip.Prefix]int)
	}
	if _, ok := n.firsts[p]; ok {
		return
	}
	n.firsts[p] = i
	v4, bits := p.Addr().Is4(), p.Bits()
	if !slices.ContainsFunc(n.lengths, func(l netLength) bool { return l.v4 == v4 && l.bits == bits }) {
		n.lengths = append(n.lengths, netLength{v4, bits, i})
	}
}

// AddUnix adds unix sockets.
func (n *Set) AddUnix(i int) {
	if n.unix == 0 {
		n.unix = i + 1
	}
}

// AddAll adds all addresses.
func (n *Set) AddAll(i int) {
	if n.all == 0 {
		n.all = i + 1
	}
}

// Find returns the index of the first network with an address.
func (n *Set) Find(a netip.Addr) (first int, ok bool) {
	best := n.all
	consider := func(i int) {
		if best == 0 || i != 0 && i < best {
			best = i
		}
	}
	if !a.IsValid() {
		consider(n.unix)
		return best - 1, best != 0
	}
	if a.Is4In6() && slices.ContainsFunc(n.lengths, func(l netLength) bool { return l.v4 }) {
		a = a.Unmap()
	}
	for _, l := range n.lengths {
		if best != 0 && best <= l.first {
			break
		}
		if l.v4 == a.Is4() {
			p, _ := a.Prefix(l.bits) // the length is valid for the family
			if i, ok := n.firsts[p]; ok {
				consider(i + 1)
			}
		}
	}
	return best - 1, best != 0
}
