package contender

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Toggle changes one setting of a contender, which shows what the setting costs.
type Toggle struct {
	// Setting is the name of the setting in package explain.
	Setting string `yaml:"setting"`

	// To describes the changed setting, as after "with"; "" is package explain's description.
	To string `yaml:"to"`

	// Contender is another contender that differs only in this setting. Without it, the contender
	// itself runs with another line, more environment variables, or other settings of the template.
	Contender string            `yaml:"contender"`
	Run       string            `yaml:"run"`
	Env       []string          `yaml:"env"`
	Set       map[string]string `yaml:"set"`
}

// Toggled returns the contender with a toggle applied. The toggle must not name another contender.
func (s *Spec) Toggled(t *Toggle) *Spec {
	is := *s
	if t.Run != "" {
		is.Run = t.Run
	}
	is.Env = slices.Concat(s.Env, t.Env)
	is.AddSettings(t.Set)
	return &is
}

// AddSettings adds settings to a copy of Set, which other contenders may have.
func (s *Spec) AddSettings(set map[string]string) {
	all := make(map[string]string)
	maps.Copy(all, s.Set)
	maps.Copy(all, set)
	s.Set = all
}

// checkToggles returns a *yamlfile.Error for the first invalid toggle.
func (s *Spec) checkToggles(f *yamlfile.File) error {
	for i, t := range s.Toggles {
		own := t.Run != "" || len(t.Env) > 0 || len(t.Set) > 0
		key := fmt.Sprintf("$.toggles[%d]", i)
		switch {
		case t.Setting == "":
			return f.Fault(key, "toggles: setting is missing")
		case own == (t.Contender != ""):
			return f.Fault(key, "toggles: want either contender, or one of run, env and set")
		case own:
			toggled := s.Toggled(&t)
			toggled.Toggles = nil
			if err := toggled.Check(f); err != nil {
				return f.Fault(key, "toggles: %q makes an invalid contender: %v", t.Setting, err)
			}
		}
	}
	return nil
}
