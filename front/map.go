package front

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/hostname"
)

// mapping is a Map, compiled. Its variable is evaluated at the first use and then kept for the
// request, unless it is volatile.
type mapping struct {
	from   *conf.Map
	slot   int
	source text
	lookup mapLookup
	state  compileState
	needs  needs // of its texts
}

// mapLookup returns the value for the source's.
type mapLookup func(x *exchange, s string) *text

// mapKind compiles the cases of maps of a kind.
type mapKind func(m *conf.Map, values []*text, defaultValue *text) (mapLookup, error)

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
	var err error
	if m.source, err = c.text(m.from.Source); err != nil {
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
	kind := c.cases
	if m.from.Kind != "" {
		if kind = c.mapKind(m.from.Kind); kind == nil {
			return fmt.Errorf("unknown kind %q", m.from.Kind)
		}
	}
	m.lookup, err = kind(m.from, values, &defaultValue)
	return err
}

// mapKind returns the module's for a kind of maps, or nil.
func (c *compiler) mapKind(name string) mapKind {
	for _, m := range c.modules {
		if kind := m.mapKinds[name]; kind != nil {
			return kind
		}
	}
	return nil
}

// casePattern returns the regular expression of a case, if it has one.
func casePattern(m *conf.Map, from string) (source string, fold, ok bool) {
	if m.Kind != "" {
		return "", false, false
	}
	return cutPattern(from)
}

// cases compiles the cases of a map: strings, which are compared without regard to case, then names
// with stars, then regular expressions.
func (c *compiler) cases(m *conf.Map, values []*text, defaultValue *text) (mapLookup, error) {
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
