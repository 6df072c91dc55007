package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/places"
)

// Variables are resolved when a Config is compiled: first those that it defines, then nginx's.

// Variable returns a variable by its name in lower case. It returns an error if the
// variable is unknown or not available.
func (c *Compiler) Variable(name string) (Variable, error) {
	if m := c.maps[name]; m != nil {
		return c.mapVariable(m)
	}
	v, isKnown := c.known(name)
	if slot, ok := c.Slots[name]; ok && !v.IsCached {
		if !c.IsOverlaid(name) {
			return func(x *Exchange) string { return x.get(slot) }, nil
		}
		c.Use(v.Needs)
		return func(x *Exchange) string {
			if x.Has(slot) {
				return x.get(slot)
			}
			return v.Get(x)
		}, nil
	}
	if isKnown {
		c.Use(v.Needs)
		if v.IsCached {
			return cachedVariable(c.SlotOf(name), v.Get), nil
		}
		return v.Get, nil
	}
	return NoVariable, c.checkExists(name)
}

// checkExists returns an error if a variable is unknown or not available.
func (c *Compiler) checkExists(name string) error {
	_, isKnown := c.known(name)
	if _, isSet := c.Slots[name]; isKnown || isSet || c.maps[name] != nil || c.Config.Blank[name] {
		return nil
	}
	if why := grammar.Unavailable(name); why != "" {
		return fmt.Errorf("variable $%s is not available: %s", name, why)
	}
	return fmt.Errorf("unknown variable $%s", name)
}

// checkTexts checks the Config's Texts.
func (c *Compiler) checkTexts() {
	for _, t := range c.Config.Texts {
		pieces, err := grammar.Pieces(t.Text)
		for i := 0; i < len(pieces) && err == nil; i++ {
			if name := pieces[i].Variable; name != "" {
				err = c.checkExists(name)
			}
		}
		if err != nil {
			c.At(t.Pos, func() { c.Failf("%s: %w in %q", t.Directive, err, string(t.Text)) })
		}
	}
}

// IsOverlaid reports whether a variable is nginx's until something sets it. As in nginx a group of
// a regular expression and auth_request_set replace variables with a prefix, such as $arg_x, where
// nothing has set them, too.
func (c *Compiler) IsOverlaid(name string) bool {
	if _, isCore := c.Known[name]; isCore {
		return true
	}
	_, isKnown := c.known(name)
	return isKnown && c.Assigned[name] && !c.replaced[name]
}

// cachedVariable returns a variable that is evaluated at its first use and then kept for the
// request, unless a Set has set it.
func cachedVariable(slot int, find Variable) Variable {
	return func(x *Exchange) string {
		if !x.Has(slot) {
			x.Set(slot, find(x))
		}
		return x.get(slot)
	}
}

// known returns one of nginx's variables.
func (c *Compiler) known(name string) (KnownVariable, bool) {
	if v, ok := c.Known[name]; ok {
		return v, true
	}
	families := variableFamilies()
	for _, m := range c.modules {
		families = append(families, m.Families...)
	}
	for _, f := range families {
		if rest, ok := strings.CutPrefix(name, f.Prefix); ok {
			return KnownVariable{Get: f.Of(rest), Needs: f.Needs}, true
		}
	}
	return KnownVariable{}, false
}

// Use makes the plan collect what a variable needs.
func (c *Compiler) Use(n needs) {
	c.TextNeeds |= n
	c.Plan.Needs |= n
}

// SlotOf returns the slot of a variable, and makes one if needed.
func (c *Compiler) SlotOf(name string) int {
	slot, ok := c.Slots[name]
	if !ok {
		slot = len(c.Slots)
		c.Slots[name] = slot
	}
	return slot
}

// get returns the value of a slot, "" if it is not set.
func (x *Exchange) get(slot int) string {
	if x.Vars == nil {
		return ""
	}
	return x.Vars[slot].text
}

// Has reports whether a slot is set, to an empty value or another.
func (x *Exchange) Has(slot int) bool { return x.Vars != nil && x.Vars[slot].isSet }

// Set sets a slot.
func (x *Exchange) Set(slot int, text string) {
	if x.Vars == nil {
		x.Vars = make([]value, x.Plan.slots)
	}
	x.Vars[slot] = value{text, true}
}

// declare makes slots for the variables that the Config defines.
func (c *Compiler) declare() {
	for i := range c.Config.Maps {
		m := &c.Config.Maps[i]
		name := strings.ToLower(m.Name)
		if c.maps[name] != nil {
			c.Failf("duplicate map $%s", name)
		}
		c.declareVariable("map", name)
		c.maps[name], c.Assigned[name] = &mapping{from: m, slot: c.Slots[name]}, true
		for _, k := range m.Cases {
			if source, fold, ok := CutPattern(k.From); ok && m.Kind == "" {
				c.declareGroups("map $"+name, source, fold)
			}
		}
	}
	for i := range c.Config.Hosts {
		h := &c.Config.Hosts[i]
		for _, name := range h.Names {
			if source, ok := strings.CutPrefix(name, "~"); ok {
				c.At(h.Pos, func() { c.declareGroups("server_name", source, true) })
			}
		}
	}
	for p := range places.Of(c.Config) {
		c.At(p.Pos, func() { c.declarePlace(p) })
	}
}

// declarePlace makes slots for the variables that a place defines.
func (c *Compiler) declarePlace(p places.Place) {
	for s := range p.AllSteps() {
		c.At(s.Position(), func() { c.declareStep(s) })
	}
	if l := p.Location; l != nil {
		if l.Match == "~" || l.Match == "~*" {
			c.declareGroups("location", l.Path, l.Match == "~*")
		}
		c.declareProxy(l.Proxy)
		if l.Status || l.Metrics {
			c.Plan.Needs |= NeedsCounts
		}
	}
	if auth := p.Settings.AuthRequest; auth != nil {
		for _, s := range auth.Set { // they are not set until the subrequest has ended
			c.declareSet("auth_request_set", s)
			c.replaced[strings.ToLower(s.Name)] = true
		}
	}
}

// declareSet makes a slot for the variable of a Set, unless it is one of nginx's. It reports
// whether there is a slot.
func (c *Compiler) declareSet(directive string, s conf.Set) bool {
	name := strings.ToLower(s.Name)
	c.setsLimitRate = c.setsLimitRate || name == "limit_rate"
	if c.Known[name].Set != nil {
		return false
	}
	c.declareVariable(directive, name)
	return true
}

func (c *Compiler) declareProxy(p *conf.Proxy) {
	if p == nil {
		return
	}
	for _, r := range slices.Concat(p.Redirects, p.CookieDomains, p.CookiePaths, p.CookieFlags) {
		if source, fold, ok := CutPattern(r.From); ok {
			c.declareGroups("proxy", source, fold)
		}
	}
}

func (c *Compiler) declareStep(s conf.Step) {
	switch s := s.(type) {
	case conf.Set:
		if c.declareSet("set", s) {
			c.Assigned[strings.ToLower(s.Name)] = true
		}
	case conf.Rewrite:
		c.declareGroups("rewrite", s.Pattern, false)
	case conf.If:
		if op := strings.TrimPrefix(s.Op, "!"); op == "~" || op == "~*" {
			c.declareGroups("if", string(s.Right), op == "~*")
		}
	}
}

func (c *Compiler) declareGroups(what, source string, fold bool) {
	for _, name := range c.ParsePattern(what, source, fold).Re.Names() {
		if name != "" {
			c.declareVariable(what, strings.ToLower(name))
			c.replaced[strings.ToLower(name)] = true
		}
	}
}

// declareVariable makes a slot for a variable, if it has none.
func (c *Compiler) declareVariable(what, name string) {
	if !grammar.IsVariableName(name) {
		c.Failf("%s: invalid variable name %q", what, name)
	}
	if v, ok := c.Known[name]; ok && !v.IsReplaceable {
		c.Failf("%s: variable $%s cannot be set", what, name)
	}
	c.SlotOf(name)
}
