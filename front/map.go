package front

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/hostname"
)

// mapping is a Map, compiled. Its variable is evaluated at the first use and then kept for the
// request, unless it is volatile.
type mapping struct {
	from   *conf.Map
	slot   int
	source text
	lookup func(x *exchange, s string) *text // of the value
	state  compileState
	needs  needs // of its texts
}

type compileState int

const (
	notCompiled compileState = iota
	compiling
	compiled
)

// eval returns the variable's value. Captures of the map's regular expressions are available to its
// values only; in nginx they are available to later texts, too.
func (m *mapping) eval(x *exchange) string {
	if !m.from.Volatile && x.vars != nil && x.vars[m.slot].isSet {
		return x.vars[m.slot].text
	}
	before := x.captures
	s := m.lookup(x, m.source.eval(x)).eval(x)
	x.captures = before
	if !m.from.Volatile {
		x.set(m.slot, s)
	}
	return s
}

// mapVariable returns the variable of a map, and compiles the map if needed.
func (c *compiler) mapVariable(m *mapping) (variable, error) {
	switch m.state {
	case compiling:
		return nil, fmt.Errorf("map $%s depends on itself", m.from.Name)
	case notCompiled:
		m.state = compiling
		before := c.textNeeds
		c.textNeeds = 0
		if err := c.compileMap(m); err != nil {
			return nil, fmt.Errorf("map $%s: %w", m.from.Name, err)
		}
		m.needs, c.textNeeds = c.textNeeds, before
		m.state = compiled
	}
	c.textNeeds |= m.needs
	return m.eval, nil
}

// compileMaps compiles all maps, also those that are not used.
func (c *compiler) compileMaps() error {
	for i := range c.config.Maps {
		if _, err := c.mapVariable(c.maps[strings.ToLower(c.config.Maps[i].Name)]); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) compileMap(m *mapping) error {
	if m.from.Geo && (m.from.Split || m.from.Hostnames) || m.from.Split && m.from.Hostnames {
		return fmt.Errorf("more than one of Geo, Split and Hostnames")
	}
	source := m.from.Source
	if source == "" && m.from.Geo {
		source = "$remote_addr"
	}
	var err error
	if m.source, err = c.text(source); err != nil {
		return err
	}
	defaultValue, err := c.text(m.from.Default)
	if err != nil {
		return err
	}
	values := make([]*text, len(m.from.Cases))
	for i, k := range m.from.Cases {
		v, err := c.text(k.To)
		if err != nil {
			return err
		}
		values[i] = &v
	}
	switch {
	case m.from.Geo:
		m.lookup, err = networks(m.from.Cases, values, &defaultValue)
		m.lookup = m.behindProxies(m.lookup)
	case m.from.Split:
		m.lookup, err = percentages(m.from.Cases, values, &defaultValue)
	default:
		m.lookup, err = c.cases(m.from, values, &defaultValue)
	}
	return err
}

// casePattern returns the regular expression of a case, if it has one.
func casePattern(m *conf.Map, from string) (source string, fold, ok bool) {
	if m.Geo || m.Split {
		return "", false, false
	}
	return cutPattern(from)
}

// cases compiles the cases of a map: strings, which are compared without regard to case, then names
// with stars, then regular expressions.
func (c *compiler) cases(m *conf.Map, values []*text, defaultValue *text) (func(*exchange, string) *text, error) {
	type patternCase struct {
		pattern *pattern
		value   *text
	}
	exact, names := make(map[string]*text), hostname.NewMap[*text]()
	var patterns []patternCase
	for i, k := range m.Cases {
		if source, fold, ok := casePattern(m, k.From); ok {
			p, err := c.pattern(source, fold)
			if err != nil {
				return nil, err
			}
			patterns = append(patterns, patternCase{p, values[i]})
			continue
		}
		from := hostname.LowerASCII(strings.TrimPrefix(k.From, `\`))
		if m.Hostnames && (strings.HasPrefix(from, ".") || strings.Contains(from, "*")) {
			if err := names.Add(from, values[i]); err != nil {
				return nil, err
			}
			continue
		}
		if exact[from] != nil {
			return nil, fmt.Errorf("duplicate case %q", k.From)
		}
		exact[from] = values[i]
	}
	return func(x *exchange, s string) *text {
		low := hostname.LowerASCII(s)
		if m.Hostnames {
			low = strings.TrimSuffix(low, ".")
		}
		if v := exact[low]; v != nil {
			return v
		}
		if v, ok := names.Find(low); ok {
			return v
		}
		for i := range patterns {
			if patterns[i].pattern.match(x, s) {
				return patterns[i].value
			}
		}
		return defaultValue
	}, nil
}

// networks compiles the cases of a geo map: the longest network with the address applies.
func networks(cases []conf.Case, values []*text, defaultValue *text) (func(*exchange, string) *text, error) {
	type network struct {
		prefix netip.Prefix
		value  *text
	}
	var all []network
	for i, k := range slices.Backward(cases) { // as in nginx the last one of equal networks applies
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
	return func(_ *exchange, s string) *text {
		addr, err := netip.ParseAddr(s)
		if err != nil {
			// nginx uses this address for invalid ones and for clients of unix sockets
			addr = netip.AddrFrom4([4]byte{255, 255, 255, 255})
		}
		if i, ok := set.find(addr.Unmap().WithZone("")); ok {
			return all[i].value
		}
		return defaultValue
	}, nil
}

// behindProxies returns the lookup of a geo map with proxies, for whose addresses it takes the
// client's from X-Forwarded-For.
func (m *mapping) behindProxies(lookup func(*exchange, string) *text) func(*exchange, string) *text {
	if m.from.Proxies == nil {
		return lookup
	}
	proxies := &realIP{header: "X-Forwarded-For", isList: true, recursive: m.from.ProxiesRecursive}
	for i, p := range m.from.Proxies {
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

// percentages compiles the cases of a split_clients map to ranges of hashes.
func percentages(cases []conf.Case, values []*text, defaultValue *text) (func(*exchange, string) *text, error) {
	const whole = 10000 // in hundredths of a percent
	var ends []uint64   // exclusive
	sum, last := 0, uint64(0)
	for _, k := range cases {
		if k.From == "*" {
			ends = append(ends, 1<<32)
			continue
		}
		share, err := grammar.ParsePercent(k.From)
		if err != nil {
			return nil, err
		}
		if sum += share; sum > whole {
			return nil, fmt.Errorf("the percentages add up to more than 100 at %q", k.From)
		}
		last += uint64(share) * 0xffffffff / whole
		ends = append(ends, last)
	}
	return func(_ *exchange, s string) *text {
		hash := uint64(murmur2(s))
		for i, end := range ends {
			if hash < end {
				return values[i]
			}
		}
		return defaultValue
	}, nil
}

// murmur2 is Austin Appleby's MurmurHash2 with the seed 0, as nginx's split_clients uses it.
func murmur2(s string) uint32 {
	const m = 0x5bd1e995
	h := uint32(len(s))
	for len(s) >= 4 {
		k := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h *= m
		h ^= k
		s = s[4:]
	}
	switch len(s) {
	case 3:
		h ^= uint32(s[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(s[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(s[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
