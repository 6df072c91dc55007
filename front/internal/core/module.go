package core

import (
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/mediatype"
)

// Module is a feature outside of the core, and all that the core knows of it. Package front has the
// table of modules. What compiles ends the compilation at an error: see Compiler.Failf.
type Module struct {
	// Prepare compiles what the module needs of the whole Config, before all Settings.
	Prepare func(c *Compiler, at Slot)
	// Compile compiles the module's part of Settings.
	Compile func(c *Compiler, s *conf.Settings, at Slot) Effect
	// Location compiles the module's part of a Location, whose Settings are compiled.
	Location func(c *Compiler, loc *Location, from *conf.Location)
	// Variables are the module's variables.
	Variables func(at Slot) map[string]KnownVariable
	Families  []VariableFamily
	// MapKinds are kinds of maps, by conf.Map.Kind.
	MapKinds map[string]MapKind
	// NewState returns what the module keeps for all requests, also over reloads.
	NewState func() any
	// CopyState returns the module's state of a request for a copy, which may outlive the request.
	CopyState func(x *Exchange, at Slot) any
}

// Slot is the index of a module in modules, and of what it keeps.
type Slot int

// Effect is what a module does with requests that some Settings apply to.
type Effect struct {
	Rules  any             // for the module itself; nil if it does nothing
	Step   Step            // before the content
	Head   func(w *Writer) // changes the response's header, or adds a stage by it alone
	Bodies []BodyFilter    // change the body
	Edits  *mediatype.Set  // the types of bodies whose text Bodies change; nil for none
	// EditsAdded: Bodies also change bodies that are added to another response.
	EditsAdded bool
	Log        func(x *Exchange) // after the response
}

// Step is what a module does in a phase between rewrite and content.
type Step struct {
	Phase phase
	Name  string                    // in findings
	Run   func(x *Exchange) Outcome // nil without a step
}

// phase is a phase between rewrite and content.
type phase int

const (
	Rewritten phase = iota // the location is final
	LimitPhase
	AccessPhase
	ContentPhase
)

// AddStep adds a step to those of a location, after those of its phase.
func AddStep(all []Step, s Step) []Step {
	at := len(all)
	for at > 0 && all[at-1].Phase > s.Phase {
		at--
	}
	return slices.Insert(slices.Clip(all), at, s)
}

// effects compiles the modules' parts of the Settings.
func (c *Compiler) effects(r *Rules) {
	for at, m := range c.modules {
		if m.Compile == nil {
			continue
		}
		e := m.Compile(c, r.Settings, Slot(at))
		if e.Rules == nil {
			continue
		}
		if r.ofModules == nil {
			r.ofModules = make([]any, len(c.modules))
		}
		r.ofModules[at] = e.Rules
		if e.Step.Run != nil {
			r.moduleSteps = AddStep(r.moduleSteps, e.Step)
		}
		if e.Head != nil {
			r.byHead = append(r.byHead, e.Head)
		}
		r.byType = append(r.byType, e.Bodies...)
		if e.Edits != nil {
			r.edited = append(r.edited, e.Edits)
		}
		if e.EditsAdded {
			r.ofAdded = append(r.ofAdded, e.Bodies...)
		}
		if e.Log != nil {
			r.logs = append(r.logs, e.Log)
		}
	}
}

// ModuleRules returns what a module has compiled for the location, or nil.
func (x *Exchange) ModuleRules(at Slot) any {
	if all := x.Loc.ofModules; all != nil {
		return all[at]
	}
	return nil
}

// ModuleState returns what a module keeps of the request, or nil.
func (x *Exchange) ModuleState(at Slot) any {
	if x.States != nil {
		return x.States[at]
	}
	return nil
}

// SetModuleState sets what a module keeps of the request.
func (x *Exchange) SetModuleState(at Slot, state any) {
	if x.States == nil {
		x.States = make([]any, len(x.Plan.State.Modules))
	}
	x.States[at] = state
}

// CopyStates returns the modules' states of the request for a copy.
func (x *Exchange) CopyStates() []any {
	var all []any
	for at, m := range x.Plan.modules {
		if m.CopyState == nil {
			continue
		}
		if all == nil {
			all = make([]any, len(x.Plan.State.Modules))
		}
		all[at] = m.CopyState(x, Slot(at))
	}
	return all
}
