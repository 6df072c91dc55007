package clients

import (
	"net/netip"
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/netset"
	"github.com/tarehq/tare/front/internal/realip"
)

// GeoModule makes variables of networks: geo.
func GeoModule() core.Module { return core.Module{MapKinds: map[string]core.MapKind{"geo": networks}} }

// networks compiles the cases of a geo map: the longest network with the address applies.
func networks(c *core.Compiler, m *conf.Map, values []*core.Text, defaultValue *core.Text) core.MapLookup {
	type network struct {
		Prefix netip.Prefix
		Value  *core.Text
	}
	var all []network
	for i, k := range slices.Backward(m.Cases) { // as in nginx the last one of equal networks applies
		p, err := netip.ParsePrefix(k.From)
		if err != nil {
			addr, addrErr := netip.ParseAddr(k.From)
			if addrErr != nil {
				c.Failf("map $%s: %q is neither an address nor a network", m.Name, k.From)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		if p = p.Masked(); !p.Addr().Is4In6() { // as in nginx such a network has no address
			all = append(all, network{Prefix: p, Value: values[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b network) int { return b.Prefix.Bits() - a.Prefix.Bits() })
	var set netset.Set
	for i, n := range all {
		set.Add(n.Prefix, i)
	}
	return behindProxies(m, func(_ *core.Exchange, s string) *core.Text {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			// nginx uses this address for invalid ones and for clients of unix sockets
			addr = netip.AddrFrom4([4]byte{255, 255, 255, 255})
		}
		if i, ok := set.Find(addr.Unmap().WithZone("")); ok {
			return all[i].Value
		}
		return defaultValue
	})
}

// behindProxies returns the lookup of a geo map with proxies, for whose addresses it takes the
// client's from X-Forwarded-For.
func behindProxies(m *conf.Map, lookup core.MapLookup) core.MapLookup {
	if m.Proxies == nil {
		return lookup
	}
	proxies := &realip.Rules{Header: "X-Forwarded-For", IsList: true, Recursive: m.ProxiesRecursive}
	for i, p := range m.Proxies {
		proxies.From.Add(p, i)
	}
	return func(x *core.Exchange, s string) *core.Text {
		if addr, err := netip.ParseAddr(s); err == nil {
			if at, ok := proxies.Find(netip.AddrPortFrom(addr, 0), x.Request.Header); ok {
				s = at.Addr().String()
			}
		}
		return lookup(x, s)
	}
}
