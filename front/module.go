package front

import (
	"net/http"
	"slices"

	"github.com/tarehq/tare/front/conf"
)

// A module is a feature outside of the core, in a file of its own. The row in modules is all that
// the core knows of it.
type module struct {
	// prepare compiles what the module needs of the whole Config, before all Settings.
	prepare func(c *compiler, at slot) error
	// compile compiles the module's part of Settings.
	compile func(c *compiler, s *conf.Settings, at slot) (effect, error)
	// location compiles the module's part of a Location, whose Settings are compiled.
	location func(c *compiler, loc *location, from *conf.Location) error
	// variables are the module's variables.
	variables func(at slot) map[string]knownVariable
	families  []variableFamily
	// mapKinds are kinds of maps, by conf.Map.Kind.
	mapKinds map[string]mapKind
	// newState returns what the module keeps for all requests, also over reloads.
	newState func() any
	// copyState returns the module's state of a request for a copy, which may outlive the request.
	copyState func(x *exchange, at slot) any
}

// slot is the index of a module in modules, and of what it keeps.
type slot int

// effect is what a module does with requests that some Settings apply to.
type effect struct {
	rules    any                                   // for the module itself; nil if it does nothing
	step     step                                  // before the content
	fields   func(x *exchange, header http.Header) // adds fields to the response
	start    func(w *writer)                       // adds a stage of the body by the head alone
	bodies   []bodyFilter                          // change the body
	observes bool                                  // log needs to know the response
	log      func(x *exchange)                     // after the response
}

// effects are those of all modules.
type effects struct {
	rules    []any // by slot; nil if no module does anything
	steps    []step
	fields   []func(x *exchange, header http.Header)
	starts   []func(w *writer)
	bodies   []bodyFilter
	observes bool
	logs     []func(x *exchange)
}

// step is what a module does in a phase between rewrite and content.
type step struct {
	phase phase
	name  string                    // in findings
	run   func(x *exchange) outcome // nil without a step
}

// phase is a phase between rewrite and content.
type phase int

const (
	rewritten phase = iota // the location is final
	limitPhase
	accessPhase
	contentPhase
)

// addStep adds a step to those of a location, after those of its phase.
func addStep(all []step, s step) []step {
	at := len(all)
	for at > 0 && all[at-1].phase > s.phase {
		at--
	}
	return slices.Insert(slices.Clip(all), at, s)
}

// effects compiles the effects of all modules.
func (c *compiler) effects(s *conf.Settings) (all effects, err error) {
	for at, m := range c.modules {
		if m.compile == nil {
			continue
		}
		e, err := m.compile(c, s, slot(at))
		if err != nil {
			return all, err
		}
		if e.rules == nil {
			continue
		}
		if all.rules == nil {
			all.rules = make([]any, len(c.modules))
		}
		all.rules[at] = e.rules
		if e.step.run != nil {
			all.steps = addStep(all.steps, e.step)
		}
		if e.fields != nil {
			all.fields = append(all.fields, e.fields)
		}
		if e.start != nil {
			all.starts = append(all.starts, e.start)
		}
		all.bodies = append(all.bodies, e.bodies...)
		if e.log != nil {
			all.logs = append(all.logs, e.log)
		}
		all.observes = all.observes || e.observes
	}
	return all, nil
}

// moduleRules returns what a module has compiled for the location, or nil.
func (x *exchange) moduleRules(at slot) any {
	if all := x.loc.effects.rules; all != nil {
		return all[at]
	}
	return nil
}

// moduleState returns what a module keeps of the request, or nil.
func (x *exchange) moduleState(at slot) any {
	if x.states != nil {
		return x.states[at]
	}
	return nil
}

// setModuleState sets what a module keeps of the request.
func (x *exchange) setModuleState(at slot, state any) {
	if x.states == nil {
		x.states = make([]any, len(x.plan.state.modules))
	}
	x.states[at] = state
}

// copyStates returns the modules' states of the request for a copy.
func (x *exchange) copyStates() []any {
	var all []any
	for at, m := range x.plan.modules {
		if m.copyState == nil {
			continue
		}
		if all == nil {
			all = make([]any, len(x.plan.state.modules))
		}
		all[at] = m.copyState(x, slot(at))
	}
	return all
}

// newModuleStates returns what the modules keep for all requests, by slot.
func newModuleStates(table []module) []any {
	all := make([]any, len(table))
	for at, m := range table {
		if m.newState != nil {
			all[at] = m.newState()
		}
	}
	return all
}
