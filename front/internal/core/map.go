package core

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/hostname"
)

// mapping is a Map, compiled.
type mapping struct {
	from   *conf.Map
	slot   int
	source Text
	lookup MapLookup // nil before it is compiled
	needs  needs     // of its texts

	isCompiling bool
}

// MapLookup returns the map's value for a value of its source.
type MapLookup func(x *Exchange, s string) *Text

// MapKind compiles the cases of maps of a kind.
type MapKind func(c *Compiler, m *conf.Map, values []*Text, defaultValue *Text) MapLookup

// eval returns the variable's value. Captures of the map's regular expressions are available to its
// values only; in nginx they are available to later texts, too.
func (m *mapping) eval(x *Exchange) string {
	before := x.Captures
	s := m.lookup(x, m.source.Eval(x)).Eval(x)
	x.Captures = before
	return s
}

// mapVariable returns the variable of a map, and compiles the map if needed.
func (c *Compiler) mapVariable(m *mapping) (Variable, error) {
	if m.isCompiling {
		return nil, fmt.Errorf("map $%s depends on itself", m.from.Name)
	}
	if m.lookup == nil {
		m.isCompiling = true
		before := c.TextNeeds
		c.TextNeeds = 0
		c.compileMap(m)
		m.needs, c.TextNeeds = c.TextNeeds, before
		m.isCompiling = false
	}
	c.TextNeeds |= m.needs
	if m.from.Volatile {
		return m.eval, nil
	}
	return cachedVariable(m.slot, m.eval), nil
}

// compileMaps compiles all maps, also those that are not used.
func (c *Compiler) compileMaps() {
	for i := range c.Config.Maps {
		_, err := c.mapVariable(c.maps[strings.ToLower(c.Config.Maps[i].Name)])
		c.Check("", err)
	}
}

func (c *Compiler) compileMap(m *mapping) {
	what := "map $" + m.from.Name
	m.source = c.Text(what, m.from.Source)
	defaultValue := c.Text(what, m.from.Default)
	values := make([]*Text, len(m.from.Cases))
	for i, k := range m.from.Cases {
		values[i] = new(c.Text(what, k.To))
	}
	m.lookup = c.mapKind(m.from)(c, m.from, values, &defaultValue)
}

// mapKind returns what compiles the cases of a map: the core, or a module.
func (c *Compiler) mapKind(of *conf.Map) MapKind {
	if of.Kind == "" {
		return (*Compiler).cases
	}
	for _, m := range c.modules {
		if kind := m.MapKinds[of.Kind]; kind != nil {
			return kind
		}
	}
	c.Failf("map $%s: unknown kind %q", of.Name, of.Kind)
	return nil
}

// cases compiles the cases of a map: strings, which are compared without regard to case, then names
// with stars, then regular expressions.
func (c *Compiler) cases(m *conf.Map, values []*Text, defaultValue *Text) MapLookup {
	what := "map $" + m.Name
	type patternCase struct {
		Pattern *Pattern
		Value   *Text
	}
	exact, names := make(map[string]*Text), hostname.NewMap[*Text]()
	var patterns []patternCase
	for i, k := range m.Cases {
		if source, fold, ok := CutPattern(k.From); ok {
			patterns = append(patterns, patternCase{c.Pattern(what, source, fold), values[i]})
			continue
		}
		from := hostname.LowerASCII(strings.TrimPrefix(k.From, `\`))
		if m.Hostnames && (strings.HasPrefix(from, ".") || strings.Contains(from, "*")) {
			c.Check(what, names.Add(from, values[i]))
			continue
		}
		if exact[from] != nil {
			c.Failf("%s: duplicate case %q", what, k.From)
		}
		exact[from] = values[i]
	}
	return func(x *Exchange, s string) *Text {
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
			if patterns[i].Pattern.Match(x, s) {
				return patterns[i].Value
			}
		}
		return defaultValue
	}
}
