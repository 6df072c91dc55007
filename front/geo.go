package front

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/tarehq/tare/front/conf"
)

// geoModule makes variables of networks: geo.
func geoModule() module { return module{mapKinds: map[string]mapKind{"geo": networks}} }

// networks compiles the cases of a geo map: the longest network with the address applies.
func networks(m *conf.Map, values []*text, defaultValue *text) (mapLookup, error) {
	type network struct {
		prefix netip.Prefix
		value  *text
	}
	var all []network
	for i, k := range slices.Backward(m.Cases) { // as in nginx the last one of equal networks applies
		p, err := netip.ParsePrefix(k.From)
		if err != nil {
			addr, addrErr := netip.ParseAddr(k.From)
			if addrErr != nil {
				return nil, fmt.Errorf("%q is neither an address nor a network", k.From)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		if p = p.Masked(); !p.Addr().Is4In6() { // as in nginx such a network has no address
			all = append(all, network{p, values[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b network) int { return b.prefix.Bits() - a.prefix.Bits() })
	var set networkSet
	for i, n := range all {
		set.add(n.prefix, i)
	}
	return behindProxies(m, func(_ *exchange, s string) *text {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			// nginx uses this address for invalid ones and for clients of unix sockets
			addr = netip.AddrFrom4([4]byte{255, 255, 255, 255})
		}
		if i, ok := set.find(addr.Unmap().WithZone("")); ok {
			return all[i].value
		}
		return defaultValue
	}), nil
}

// behindProxies returns the lookup of a geo map with proxies, for whose addresses it takes the
// client's from X-Forwarded-For.
func behindProxies(m *conf.Map, lookup mapLookup) mapLookup {
	if m.Proxies == nil {
		return lookup
	}
	proxies := &realIP{header: "X-Forwarded-For", isList: true, recursive: m.ProxiesRecursive}
	for i, p := range m.Proxies {
		proxies.from.add(p, i)
	}
	return func(x *exchange, s string) *text {
		if addr, err := netip.ParseAddr(s); err == nil {
			if at, ok := proxies.find(netip.AddrPortFrom(addr, 0), x.r.Header); ok {
				s = at.Addr().String()
			}
		}
		return lookup(x, s)
	}
}
