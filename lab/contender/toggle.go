package contender

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tarehq/tare/lab/yamlfile"
)

// Toggle is how a contender is run with one setting changed, to see what the setting costs.
type Toggle struct {
	// Setting is what is changed, as package explain names it.
	Setting string `yaml:"setting"`

	// To is what it is changed to, for a person, as after "with"; "" is what package explain says.
	To string `yaml:"to"`

	// Contender is another one that differs in nothing else. Without it, the contender itself
	// is run by another line, with more variables, or with other settings of the template.
	Contender string            `yaml:"contender"`
	Run       string            `yaml:"run"`
	Env       []string          `yaml:"env"`
	Set       map[string]string `yaml:"set"`
}

// Toggled returns the contender as a toggle has it run: for one that names no other contender.
func (s *Spec) Toggled(t *Toggle) *Spec {
	is := *s
	if t.Run != "" {
		is.Run = t.Run
	}
	is.Env = slices.Concat(s.Env, t.Env)
	is.Set = maps.Clone(s.Set)
	if is.Set == nil {
		is.Set = make(map[string]string)
	}
	maps.Copy(is.Set, t.Set)
	return &is
}

// checkToggles returns the first fault of the toggles.
func (s *Spec) checkToggles(f *yamlfile.File) error {
	for i, t := range s.Toggles {
		own := t.Run != "" || len(t.Env) > 0 || len(t.Set) > 0
		key := fmt.Sprintf("$.toggles[%d]", i)
		switch {
		case t.Setting == "":
			return f.Fault(key, "toggles: setting is missing: what is changed")
		case own == (t.Contender != ""):
			return f.Fault(key, "toggles: want a contender, or else run, env or set")
		case own:
			toggled := s.Toggled(&t)
			toggled.Toggles = nil
			if err := toggled.Check(f); err != nil {
				return f.Fault(key, "toggles: %q makes no contender: %v", t.Setting, err)
			}
		}
	}
	return nil
}
