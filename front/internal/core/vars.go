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
func (c *Compiler) checkTexts() error {
	for _, t := range c.Config.Texts {
		pieces, err := grammar.Pieces(t.Text)
		for i := 0; i < len(pieces) && err == nil; i++ {
			if name := pieces[i].Variable; name != "" {
				err = c.checkExists(name)
			}
		}
		if err != nil {
			return places.At(t.Pos, fmt.Errorf("%s: %w in %q", t.Directive, err, string(t.Text)))
		}
	}
	return nil
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
	if n&NeedsCounts != 0 {
		c.Plan.counts = &c.State.Counts
	}
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
func (c *Compiler) declare() error {
	for i := range c.Config.Maps {
		m := &c.Config.Maps[i]
		name := strings.ToLower(m.Name)
		if c.maps[name] != nil {
			return fmt.Errorf("duplicate map $%s", name)
		}
		if err := c.slot(name); err != nil {
			return fmt.Errorf("map: %w", err)
		}
		c.maps[name], c.Assigned[name] = &mapping{from: m, slot: c.Slots[name]}, true
		for _, k := range m.Cases {
			if source, fold, ok := casePattern(m, k.From); ok {
				if err := c.failure(c.declareGroups("map $"+name, source, fold)); err != nil {
					return err
				}
			}
		}
	}
	for i := range c.Config.Hosts {
		h := &c.Config.Hosts[i]
		for _, name := range h.Names {
			if source, ok := strings.CutPrefix(name, "~"); ok {
				if err := c.WithPos(h.Pos, c.declareGroups("server_name", source, true)); err != nil {
					return err
				}
			}
		}
	}
	for p := range places.Of(c.Config) {
		if err := c.WithPos(p.Pos, c.declarePlace(p)); err != nil {
			return err
		}
	}
	return nil
}

// declarePlace makes slots for the variables that a place defines.
func (c *Compiler) declarePlace(p places.Place) error {
	if err := c.declareSteps(p); err != nil {
		return err
	}
	if l := p.Location; l != nil {
		if l.Match == "~" || l.Match == "~*" {
			if err := c.declareGroups("location", l.Path, l.Match == "~*"); err != nil {
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
func (c *Compiler) declareAuth(a *conf.AuthRequest) error {
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
func (c *Compiler) declareSet(s conf.Set) error {
	name := strings.ToLower(s.Name)
	c.setsLimitRate = c.setsLimitRate || name == "limit_rate"
	if c.Known[name].Set != nil {
		return nil
	}
	return c.slot(name)
}

func (c *Compiler) declareProxy(p *conf.Proxy) error {
	if p == nil {
		return nil
	}
	for _, r := range slices.Concat(p.Redirects, p.CookieDomains, p.CookiePaths, p.CookieFlags) {
		if source, fold, ok := CutPattern(r.From); ok {
			if err := c.declareGroups("proxy", source, fold); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Compiler) declareSteps(p places.Place) error {
	for s := range p.AllSteps() {
		var err error
		switch s := s.(type) {
		case conf.Set:
			if err = c.declareSet(s); err == nil && c.Known[strings.ToLower(s.Name)].Set == nil {
				c.Assigned[strings.ToLower(s.Name)] = true
			}
		case conf.Rewrite:
			err = c.declareGroups("rewrite", s.Pattern, false)
		case conf.If:
			if op := strings.TrimPrefix(s.Op, "!"); op == "~" || op == "~*" {
				err = c.declareGroups("if", string(s.Right), op == "~*")
			}
		}
		if err = c.WithPos(s.Position(), err); err != nil {
			return err
		}
	}
	return nil
}

func (c *Compiler) declareGroups(what, source string, fold bool) error {
	for _, name := range c.ParsePattern(what, source, fold).Re.Names() {
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
func (c *Compiler) slot(name string) error {
	if !grammar.IsVariableName(name) {
		return fmt.Errorf("invalid variable name %q", name)
	}
	if v, ok := c.Known[name]; ok && !v.IsReplaceable {
		return fmt.Errorf("variable $%s cannot be set", name)
	}
	c.SlotOf(name)
	return nil
}
