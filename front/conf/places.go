package conf

import "iter"

// Place is where Settings are in a Config: a host, for requests in none of its locations, or a
// location. A location is one of the host's, a nested one, or that of an If.
type Place struct {
	Host     *Host
	Location *Location // nil for the host
	Settings *Settings // the location's, or the host's Defaults
	Steps    []Step    // without those in an If
	Pos      string    // the position in the configuration, or that of the enclosing place
}

// Places visits all places of a Config, enclosing ones first. Code that searches a Config must use
// it, so that it misses no place.
func (c *Config) Places() iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for i := range c.Hosts {
			h := &c.Hosts[i]
			p := Place{Host: h, Settings: &h.Defaults, Steps: h.Steps, Pos: h.Pos}
			if !p.visit(yield, h.Locations) {
				return
			}
		}
	}
}

// visit visits a place and those in it. It returns false to stop.
func (p Place) visit(yield func(Place) bool, inner []Location) bool {
	if !yield(p) {
		return false
	}
	for step := range p.AllSteps() {
		if s, ok := step.(If); ok && s.Location != nil && !p.inside(s.Location).visit(yield, s.Location.Locations) {
			return false
		}
	}
	for i := range inner {
		if !p.inside(&inner[i]).visit(yield, inner[i].Locations) {
			return false
		}
	}
	return true
}

// inside returns the Place of a location in the place.
func (p Place) inside(l *Location) Place {
	pos := l.Pos
	if pos == "" {
		pos = p.Pos
	}
	return Place{Host: p.Host, Location: l, Settings: &l.Settings, Steps: l.Steps, Pos: pos}
}

// AllSteps visits the steps of a place, and those in each If after it.
func (p Place) AllSteps() iter.Seq[Step] {
	return func(yield func(Step) bool) { visitSteps(p.Steps, yield) }
}

func visitSteps(steps []Step, yield func(Step) bool) bool {
	for _, s := range steps {
		if !yield(s) {
			return false
		}
		if inner, ok := s.(If); ok && !visitSteps(inner.Then, yield) {
			return false
		}
	}
	return true
}
