package front

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/places"
)

// Variables are resolved when a Config is compiled: first those that it defines, then nginx's.

// variable returns a variable by its name in lower case. It returns an error if the
// variable is unknown or not available.
func (c *compiler) variable(name string) (variable, error) {
	if m := c.maps[name]; m != nil {
		return c.mapVariable(m)
	}
	v, isKnown := c.known(name)
	if slot, ok := c.slots[name]; ok && !v.isCached {
		if !c.isOverlaid(name) {
			return func(x *exchange) string { return x.get(slot) }, nil
		}
		c.use(v.needs)
		return func(x *exchange) string {
			if x.has(slot) {
				return x.get(slot)
			}
			return v.get(x)
		}, nil
	}
	if isKnown {
		c.use(v.needs)
		if v.isCached {
			return cachedVariable(c.slotOf(name), v.get), nil
		}
		return v.get, nil
	}
	if c.config.Blank[name] {
		return noVariable, nil
	}
	if why := grammar.Unavailable(name); why != "" {
		return nil, fmt.Errorf("variable $%s is not available: %s", name, why)
	}
	return nil, fmt.Errorf("unknown variable $%s", name)
}

// isOverlaid reports whether a variable is nginx's until something sets it. As in nginx a group of
// a regular expression and auth_request_set replace variables with a prefix, such as $arg_x, where
// nothing has set them, too.
func (c *compiler) isOverlaid(name string) bool {
	if _, isCore := c.core[name]; isCore {
		return true
	}
	_, isKnown := c.known(name)
	return isKnown && c.assigned[name] && !c.replaced[name]
}

// cachedVariable returns a variable that is evaluated at its first use and then kept for the
// request, unless a Set has set it.
func cachedVariable(slot int, find variable) variable {
	return func(x *exchange) string {
		if !x.has(slot) {
			x.set(slot, find(x))
		}
		return x.get(slot)
	}
}

// known returns one of nginx's variables.
func (c *compiler) known(name string) (knownVariable, bool) {
	if v, ok := c.core[name]; ok {
		return v, true
	}
	families := variableFamilies()
	for _, m := range c.modules {
		families = append(families, m.families...)
	}
	for _, f := range families {
		if rest, ok := strings.CutPrefix(name, f.prefix); ok && (rest != "" || f.prefix == "arg_") {
			return f.of(rest), true
		}
	}
	return knownVariable{}, false
}

// use makes the plan collect what a variable needs.
func (c *compiler) use(n needs) {
	c.textNeeds |= n
	c.plan.needs |= n
	if n&needsCounts != 0 {
		c.plan.counts = &c.state.counts
	}
}

// slotOf returns the slot of a variable, and makes one if needed.
func (c *compiler) slotOf(name string) int {
	slot, ok := c.slots[name]
	if !ok {
		slot = len(c.slots)
		c.slots[name] = slot
	}
	return slot
}

// get returns the value of a slot, "" if it is not set.
func (x *exchange) get(slot int) string {
	if x.vars == nil {
		return ""
	}
	return x.vars[slot].text
}

// has reports whether a slot is set, to an empty value or another.
func (x *exchange) has(slot int) bool { return x.vars != nil && x.vars[slot].isSet }

// set sets a slot.
func (x *exchange) set(slot int, text string) {
	if x.vars == nil {
		x.vars = make([]value, x.plan.slots)
	}
	x.vars[slot] = value{text, true}
}

// declare makes slots for the variables that the Config defines.
func (c *compiler) declare() error {
	for i := range c.config.Maps {
		m := &c.config.Maps[i]
		name := strings.ToLower(m.Name)
		if c.maps[name] != nil {
			return fmt.Errorf("duplicate map $%s", name)
		}
		if err := c.slot(name); err != nil {
			return fmt.Errorf("map: %w", err)
		}
		c.maps[name], c.assigned[name] = &mapping{from: m, slot: c.slots[name]}, true
		for _, k := range m.Cases {
			if source, fold, ok := casePattern(m, k.From); ok {
				if err := c.declareGroups(source, fold); err != nil {
					return fmt.Errorf("map $%s: %w", name, err)
				}
			}
		}
	}
	for i := range c.config.Hosts {
		h := &c.config.Hosts[i]
		for _, name := range h.Names {
			if source, ok := strings.CutPrefix(name, "~"); ok {
				if err := c.declareGroups(source, true); err != nil {
					return withPos(h.Pos, err)
				}
			}
		}
	}
	for p := range places.Of(c.config) {
		if err := c.declarePlace(p); err != nil {
			return withPos(p.Pos, err)
		}
	}
	return nil
}

// declarePlace makes slots for the variables that a place defines.
func (c *compiler) declarePlace(p places.Place) error {
	if err := c.declareSteps(p); err != nil {
		return err
	}
	if l := p.Location; l != nil {
		if l.Match == "~" || l.Match == "~*" {
			if err := c.declareGroups(l.Path, l.Match == "~*"); err != nil {
				return err
			}
		}
		if err := c.declareProxy(l.Proxy); err != nil {
			return err
		}
	}
	return c.declareAuth(p.Settings.AuthRequest)
}

// declareAuth makes slots for the variables of an AuthRequest. They are not set until the
// subrequest has ended.
func (c *compiler) declareAuth(a *conf.AuthRequest) error {
	if a == nil {
		return nil
	}
	for _, s := range a.Set {
		if err := c.declareSet(s); err != nil {
			return err
		}
		c.replaced[strings.ToLower(s.Name)] = true
	}
	return nil
}

// declareSet makes a slot for the variable of a Set, unless it is one of nginx's.
func (c *compiler) declareSet(s conf.Set) error {
	name := strings.ToLower(s.Name)
	c.setsLimitRate = c.setsLimitRate || name == "limit_rate"
	if c.core[name].set != nil {
		return nil
	}
	return c.slot(name)
}

func (c *compiler) declareProxy(p *conf.Proxy) error {
	if p == nil {
		return nil
	}
	for _, r := range slices.Concat(p.Redirects, p.CookieDomains, p.CookiePaths, p.CookieFlags) {
		if source, fold, ok := cutPattern(r.From); ok {
			if err := c.declareGroups(source, fold); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *compiler) declareSteps(p places.Place) error {
	for s := range p.AllSteps() {
		var err error
		switch s := s.(type) {
		case conf.Set:
			if err = c.declareSet(s); err == nil && c.core[strings.ToLower(s.Name)].set == nil {
				c.assigned[strings.ToLower(s.Name)] = true
			}
		case conf.Rewrite:
			err = c.declareGroups(s.Pattern, false)
		case conf.If:
			if op := strings.TrimPrefix(s.Op, "!"); op == "~" || op == "~*" {
				err = c.declareGroups(string(s.Right), op == "~*")
			}
		}
		if err != nil {
			return withPos(stepPos(s), err)
		}
	}
	return nil
}

// declareGroups makes slots for the named groups of a regular expression.
func (c *compiler) declareGroups(source string, fold bool) error {
	p, err := c.parsePattern(source, fold)
	if err != nil {
		return err
	}
	for _, name := range p.re.Names() {
		if name == "" {
			continue
		}
		if err := c.slot(strings.ToLower(name)); err != nil {
			return err
		}
		c.replaced[strings.ToLower(name)] = true
	}
	return nil
}

// slot makes a slot for a variable, if it has none.
func (c *compiler) slot(name string) error {
	if !grammar.IsVariableName(name) {
		return fmt.Errorf("invalid variable name %q", name)
	}
	if v, ok := c.core[name]; ok && !v.isReplaceable {
		return fmt.Errorf("variable $%s cannot be set", name)
	}
	c.slotOf(name)
	return nil
}
