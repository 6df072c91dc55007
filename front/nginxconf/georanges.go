package nginxconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// geoRange is a range of addresses with its value.
type geoRange struct {
	first, last netip.Addr
	to          conf.Text
}

// geoRanges are ranges in the order of their addresses, which do not overlap.
type geoRanges struct{ all []geoRange }

// parseRange parses FIRST-LAST.
func parseRange(text string) (r geoRange, err error) {
	from, to, _ := strings.Cut(text, "-")
	var err1, err2 error
	r.first, err1 = netip.ParseAddr(from)
	r.last, err2 = netip.ParseAddr(to)
	if err1 != nil || err2 != nil || r.first.Is4() != r.last.Is4() || r.last.Less(r.first) {
		return r, fmt.Errorf("invalid range %s (example: 10.0.0.1-10.0.0.99)", shown(text))
	}
	return r, nil
}

// find returns the index of the first range that ends at an address or after it.
func (g *geoRanges) find(a netip.Addr) int {
	i, _ := slices.BinarySearchFunc(g.all, a, func(r geoRange, a netip.Addr) int { return r.last.Compare(a) })
	return i
}

// cut removes the addresses of a range. Ranges that begin before it or end after it are shortened
// or split.
func (g *geoRanges) cut(r geoRange) {
	from := g.find(r.first)
	to := from
	for to < len(g.all) && !r.last.Less(g.all[to].first) {
		to++
	}
	if from == to {
		return
	}
	var rest []geoRange
	if head := g.all[from]; head.first.Less(r.first) {
		head.last = r.first.Prev()
		rest = append(rest, head)
	}
	if tail := g.all[to-1]; r.last.Less(tail.last) {
		tail.first = r.last.Next()
		rest = append(rest, tail)
	}
	g.all = slices.Replace(g.all, from, to, rest...)
}

// remove removes the addresses of ranges that begin and end where the parts of r do, and reports
// whether those are all of r. As in nginx the parts are those in the networks of 65,536 addresses:
// a part that is within a longer range is not removed.
func (g *geoRanges) remove(r geoRange) bool {
	isComplete := true
	for part := r; ; part.first = part.last.Next() {
		part.last = r.last
		if end := lastOf(netBlock(part.first)); end.Less(r.last) {
			part.last = end
		}
		if g.has(part) {
			g.cut(part)
		} else {
			isComplete = false
		}
		if part.last == r.last {
			return isComplete
		}
	}
}

// has reports whether there is a range with the same bounds, as far as it is in the same netBlock.
func (g *geoRanges) has(r geoRange) bool {
	i := g.find(r.first)
	if i == len(g.all) || r.first.Less(g.all[i].first) {
		return false
	}
	found, block := g.all[i], netBlock(r.first)
	if found.first.Less(block.Addr()) {
		found.first = block.Addr()
	}
	if end := lastOf(block); end.Less(found.last) {
		found.last = end
	}
	return found.first == r.first && found.last == r.last
}

// netBlock returns the network of 65,536 IPv4 addresses with an address, or all IPv6 addresses.
func netBlock(a netip.Addr) netip.Prefix {
	bits := 0
	if a.Is4() {
		bits = 16
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// insert adds a range, whose addresses were cut out before.
func (g *geoRanges) insert(r geoRange) { g.all = slices.Insert(g.all, g.find(r.first), r) }

// cases returns the ranges as networks.
func (g *geoRanges) cases() []conf.Case {
	var all []conf.Case
	for _, r := range g.all {
		for _, net := range r.networks() {
			all = append(all, conf.Case{From: net.String(), To: r.to})
		}
	}
	return all
}

// networks returns the networks that make up the range.
func (r *geoRange) networks() (nets []netip.Prefix) {
	for first := r.first; ; {
		bits := first.BitLen()
		for bits > 0 {
			wider := netip.PrefixFrom(first, bits-1).Masked()
			if wider.Addr() != first || r.last.Less(lastOf(wider)) {
				break
			}
			bits--
		}
		net := netip.PrefixFrom(first, bits)
		nets = append(nets, net)
		end := lastOf(net)
		if end == r.last {
			return nets
		}
		first = end.Next()
	}
}

// lastOf returns the last address of a network.
func lastOf(net netip.Prefix) netip.Addr {
	b := net.Addr().AsSlice()
	for i := net.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}
