package nginxconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
)

// mapOf translates map.
func (t *translator) mapOf(d *directive) {
	m := conf.Map{Name: t.variableName(d, d.args[1]), Source: t.text(d, d.args[0])}
	seen := make(map[string]bool)
	for _, e := range t.entries(d) {
		switch {
		case len(e.args) == 0 && e.name == "hostnames":
			m.Hostnames = true
		case len(e.args) == 0 && e.name == "volatile":
			m.Volatile = true
		case len(e.args) != 1:
			t.errorf(e, "%s in map, but 1 required", plural(len(e.args), "value"))
		case e.name == "default":
			if seen[e.name] {
				t.errorf(e, "duplicate line in map")
			}
			m.Default = t.text(e, e.args[0])
			seen[e.name] = true
		default:
			m.Cases = append(m.Cases, t.mapCase(e, seen))
		}
	}
	t.config.Maps = append(t.config.Maps, m)
}

// mapCase translates a line of map. A leading backslash makes a special word literal.
func (t *translator) mapCase(e *directive, seen map[string]bool) conf.Case {
	c := conf.Case{From: e.name, To: t.text(e, e.args[0])}
	if strings.HasPrefix(c.From, "~") {
		return c
	}
	key := strings.ToLower(strings.TrimPrefix(c.From, `\`))
	if seen[`\`+key] {
		t.errorf(e, "duplicate line %s in map", shown(key))
	}
	seen[`\`+key] = true
	return c
}

// literal rejects a dollar sign where nginx does not expand variables: a Text always does.
func (t *translator) literal(e *directive, value string) conf.Text {
	if hasVariable(value) {
		t.reject(e, "literal dollar sign in %s is not supported", shown(value))
	}
	return conf.Text(value)
}

// geo translates geo.
func (t *translator) geo(d *directive) {
	m := conf.Map{Geo: true, Source: "$remote_addr", Name: t.variableName(d, d.args[len(d.args)-1])}
	if len(d.args) == 2 {
		m.Source = t.text(d, d.args[0])
	}
	ranges, seen := false, make(map[netip.Prefix]int)
	for i, e := range t.entries(d) {
		switch {
		case e.name == "ranges" && len(e.args) == 0:
			if i > 0 {
				t.errorf(e, "must be the first line of geo")
			}
			ranges = true
		case len(e.args) != 1:
			t.errorf(e, "%s in geo, but 1 required", plural(len(e.args), "value"))
		case e.name == "default":
			m.Default = t.literal(e, e.args[0])
		case e.name == "proxy", e.name == "proxy_recursive":
			t.reject(e, "not supported in geo (use set_real_ip_from and real_ip_header)")
		case e.name == "delete":
			t.geoDelete(e, &m, seen, ranges)
		default:
			t.geoCase(e, &m, seen, ranges)
		}
	}
	m.Cases = slices.DeleteFunc(m.Cases, func(c conf.Case) bool { return c.From == "" })
	t.config.Maps = append(t.config.Maps, m)
}

// geoNets returns the networks of a line of geo.
func (t *translator) geoNets(e *directive, text string, ranges bool) []netip.Prefix {
	if !ranges {
		net, ok := parseNet(text)
		if !ok {
			t.errorf(e, "invalid network %s (example: 10.0.0.0/8)", shown(text))
			return nil
		}
		return []netip.Prefix{net.Masked()}
	}
	nets, err := parseRange(text)
	if err != nil {
		t.errorf(e, "%v", err)
	}
	return nets
}

// geoCase adds a line of geo. seen contains the indexes of the cases, by network.
func (t *translator) geoCase(e *directive, m *conf.Map, seen map[netip.Prefix]int, ranges bool) {
	for _, net := range t.geoNets(e, e.name, ranges) {
		to := t.literal(e, e.args[0])
		if at, ok := seen[net]; ok {
			if !ranges {
				t.warn(e, "duplicate network %s: the last value counts", net)
			}
			m.Cases[at].To = to
			continue
		}
		seen[net] = len(m.Cases)
		m.Cases = append(m.Cases, conf.Case{From: net.String(), To: to})
	}
}

// geoDelete removes networks. A deleted case stays empty until all lines are read.
func (t *translator) geoDelete(e *directive, m *conf.Map, seen map[netip.Prefix]int, ranges bool) {
	for _, net := range t.geoNets(e, e.args[0], ranges) {
		at, ok := seen[net]
		if !ok {
			t.warn(e, "network %s does not exist", net)
			continue
		}
		m.Cases[at] = conf.Case{}
		delete(seen, net)
	}
}

// parseRange parses FIRST-LAST, and returns the networks that make up the range.
func parseRange(text string) ([]netip.Prefix, error) {
	from, to, _ := strings.Cut(text, "-")
	first, err1 := netip.ParseAddr(from)
	last, err2 := netip.ParseAddr(to)
	if err1 != nil || err2 != nil || first.Is4() != last.Is4() || last.Less(first) {
		return nil, fmt.Errorf("invalid range %s (example: 10.0.0.1-10.0.0.99)", shown(text))
	}
	var nets []netip.Prefix
	for {
		bits := first.BitLen()
		for bits > 0 {
			wider := netip.PrefixFrom(first, bits-1).Masked()
			if wider.Addr() != first || last.Less(lastOf(wider)) {
				break
			}
			bits--
		}
		net := netip.PrefixFrom(first, bits)
		nets = append(nets, net)
		end := lastOf(net)
		if end == last {
			return nets, nil
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

// splitClients translates split_clients.
func (t *translator) splitClients(d *directive) {
	m := conf.Map{Split: true, Source: t.text(d, d.args[0]), Name: t.variableName(d, d.args[1])}
	total, rest := 0, false
	for _, e := range t.entries(d) {
		if len(e.args) != 1 {
			t.errorf(e, "%s in split_clients, but 1 required", plural(len(e.args), "value"))
			continue
		}
		if e.name != "*" {
			n, err := grammar.ParsePercent(e.name)
			if err != nil {
				t.errorf(e, "%v", err)
			}
			total += n
		} else if rest {
			t.errorf(e, "duplicate line in split_clients")
		} else {
			rest = true
		}
		m.Cases = append(m.Cases, conf.Case{From: e.name, To: t.literal(e, e.args[0])})
	}
	if total > 100_00 {
		t.errorf(d, "the percentages add up to %d.%02d%% (maximum: 100%%)", total/100, total%100)
	}
	t.config.Maps = append(t.config.Maps, m)
}
