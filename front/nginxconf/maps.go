package nginxconf

import (
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
		t.errorf(e, "duplicate line %s in map", grammar.Quote(key))
	}
	seen[`\`+key] = true
	return c
}

// literal rejects a dollar sign where nginx does not expand variables: a Text always does.
func (t *translator) literal(e *directive, value string) conf.Text {
	if hasVariable(value) {
		t.reject(e, "literal dollar sign in %s is not supported", grammar.Quote(value))
	}
	return conf.Text(value)
}

// geo translates geo.
func (t *translator) geo(d *directive) {
	m := conf.Map{Kind: "geo", Source: "$remote_addr", Name: t.variableName(d, d.args[len(d.args)-1])}
	if len(d.args) == 2 {
		m.Source = t.text(d, d.args[0])
	}
	seen := make(map[netip.Prefix]int)
	for _, e := range t.entries(d) {
		switch {
		case e.name == "ranges" && len(e.args) == 0:
			t.reject(e, "ranges are not supported: write networks, such as 10.0.0.0/8")
			return
		case e.name == "proxy_recursive" && len(e.args) == 0:
			m.ProxiesRecursive = true
		case len(e.args) != 1:
			t.errorf(e, "%s in geo, but 1 required", plural(len(e.args), "value"))
		case e.name == "default":
			m.Default = t.literal(e, e.args[0])
		case e.name == "proxy":
			if net, ok := t.geoNet(e, e.args[0]); ok {
				m.Proxies = append(m.Proxies, net)
			}
		case e.name == "delete":
			t.geoDelete(e, &m, seen)
		default:
			t.geoCase(e, &m, seen)
		}
	}
	m.Cases = slices.DeleteFunc(m.Cases, func(c conf.Case) bool { return c.From == "" })
	t.config.Maps = append(t.config.Maps, m)
}

// geoNet returns the network of a line of geo.
func (t *translator) geoNet(e *directive, text string) (netip.Prefix, bool) {
	net, ok := parseNet(text)
	if !ok {
		t.errorf(e, "invalid network %s (example: 10.0.0.0/8)", grammar.Quote(text))
	}
	return net.Masked(), ok
}

// geoCase adds a line of geo. seen contains the indexes of the cases, by network.
func (t *translator) geoCase(e *directive, m *conf.Map, seen map[netip.Prefix]int) {
	net, ok := t.geoNet(e, e.name)
	if !ok {
		return
	}
	to := t.literal(e, e.args[0])
	if at, ok := seen[net]; ok {
		t.warn(e, "duplicate network %s: the last value counts", net)
		m.Cases[at].To = to
		return
	}
	seen[net] = len(m.Cases)
	m.Cases = append(m.Cases, conf.Case{From: net.String(), To: to})
}

// geoDelete removes a network. A deleted case stays empty until all lines are read.
func (t *translator) geoDelete(e *directive, m *conf.Map, seen map[netip.Prefix]int) {
	net, ok := t.geoNet(e, e.args[0])
	if !ok {
		return
	}
	at, ok := seen[net]
	if !ok {
		t.warn(e, "network %s does not exist", net)
		return
	}
	m.Cases[at] = conf.Case{}
	delete(seen, net)
}

// splitClients translates split_clients.
func (t *translator) splitClients(d *directive) {
	m := conf.Map{Kind: "split_clients", Source: t.text(d, d.args[0]), Name: t.variableName(d, d.args[1])}
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
