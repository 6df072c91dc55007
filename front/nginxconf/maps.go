package nginxconf

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

func (t *translator) mapOf(d *syntax.Directive) {
	m := conf.Map{Name: t.variableName(d, d.Args[1]), Source: t.text(d, d.Args[0])}
	seen := make(map[string]bool)
	for _, e := range t.entries(d) {
		switch {
		case len(e.Args) == 0 && e.Name == "hostnames":
			m.Hostnames = true
		case len(e.Args) == 0 && e.Name == "volatile":
			m.Volatile = true
		case len(e.Args) != 1:
			t.errorf(e, "%s in map, but 1 required", syntax.Plural(len(e.Args), "value"))
		case e.Name == "default":
			if seen[e.Name] {
				t.errorf(e, "duplicate line in map")
			}
			m.Default = t.text(e, e.Args[0])
			seen[e.Name] = true
		default:
			m.Cases = append(m.Cases, t.mapCase(e, seen))
		}
	}
	t.config.Maps = append(t.config.Maps, m)
}

// mapCase translates a line of map. A leading backslash makes a special word literal.
func (t *translator) mapCase(e *syntax.Directive, seen map[string]bool) conf.Case {
	c := conf.Case{From: e.Name, To: t.text(e, e.Args[0])}
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
func (t *translator) literal(e *syntax.Directive, value string) conf.Text {
	if hasVariable(value) {
		t.reject(e, "literal dollar sign in %s is not supported", grammar.Quote(value))
	}
	return conf.Text(value)
}

func (t *translator) geo(d *syntax.Directive) {
	m := conf.Map{Kind: "geo", Source: "$remote_addr", Name: t.variableName(d, d.Args[len(d.Args)-1])}
	if len(d.Args) == 2 {
		m.Source = t.variable(d, d.Args[0])
	}
	values := make(map[netip.Prefix]conf.Text)
	for _, e := range t.entries(d) {
		switch {
		case e.Name == "ranges" && len(e.Args) == 0:
			t.reject(e, "ranges are not supported: write networks, such as 10.0.0.0/8")
			return
		case e.Name == "proxy_recursive" && len(e.Args) == 0:
			m.ProxiesRecursive = true
		case len(e.Args) != 1:
			t.errorf(e, "%s in geo, but 1 required", syntax.Plural(len(e.Args), "value"))
		case e.Name == "default":
			m.Default = t.literal(e, e.Args[0])
		case e.Name == "proxy":
			if net, ok := t.geoNet(e, e.Args[0]); ok {
				m.Proxies = append(m.Proxies, net)
			}
		case e.Name == "delete":
			if net, ok := t.geoNet(e, e.Args[0]); ok {
				if _, exists := values[net]; !exists {
					t.warn(e, "network %s does not exist", net)
				}
				delete(values, net)
			}
		default:
			if net, ok := t.geoNet(e, e.Name); ok {
				if _, exists := values[net]; exists {
					t.warn(e, "duplicate network %s: the last value counts", net)
				}
				values[net] = t.literal(e, e.Args[0])
			}
		}
	}
	for _, net := range slices.SortedFunc(maps.Keys(values), netip.Prefix.Compare) {
		m.Cases = append(m.Cases, conf.Case{From: net.String(), To: values[net]})
	}
	t.config.Maps = append(t.config.Maps, m)
}

func (t *translator) geoNet(e *syntax.Directive, text string) (netip.Prefix, bool) {
	net, ok := parseNet(text)
	if !ok {
		t.errorf(e, "invalid network %s (example: 10.0.0.0/8)", grammar.Quote(text))
	}
	return net.Masked(), ok
}

func (t *translator) splitClients(d *syntax.Directive) {
	m := conf.Map{Kind: "split_clients", Source: t.text(d, d.Args[0]), Name: t.variableName(d, d.Args[1])}
	total, rest := 0, false
	for _, e := range t.entries(d) {
		if len(e.Args) != 1 {
			t.errorf(e, "%s in split_clients, but 1 required", syntax.Plural(len(e.Args), "value"))
			continue
		}
		if e.Name != "*" {
			n, err := grammar.ParsePercent(e.Name)
			t.check(e, err)
			total += n
		} else if rest {
			t.errorf(e, "duplicate line in split_clients")
		} else {
			rest = true
		}
		m.Cases = append(m.Cases, conf.Case{From: e.Name, To: t.literal(e, e.Args[0])})
	}
	if total > 100_00 {
		t.errorf(d, "the percentages add up to %d.%02d%% (maximum: 100%%)", total/100, total%100)
	}
	t.config.Maps = append(t.config.Maps, m)
}
