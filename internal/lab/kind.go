package lab

import (
	"errors"
	"path/filepath"
	"slices"
	"text/template"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Kind is what an experiment is about.
type Kind string

// The kinds of experiments.
const (
	Comparison Kind = ""           // contenders are compared with the control
	Targets    Kind = "targets"    // figures are compared with limits, each under its own condition
	Benchmarks Kind = "benchmarks" // programs that measure themselves; see Programs
	Events     Kind = "events"     // what clients receive is counted; see package events
)

// Head is what experiments of all kinds have.
type Head struct {
	Name string `yaml:"-"` // the folder's
	Dir  string `yaml:"-"`

	Kind     Kind   `yaml:"kind"`
	Title    string `yaml:"title"`
	Question string `yaml:"question"`
	Source   string `yaml:"source"` // the write-up that it repeats
	Nginx    string `yaml:"nginx"`  // a template, for contender.NginxConf; "" is none
}

// ErrNoExperiment is the error for a folder without an experiment.
var ErrNoExperiment = errors.New("no such experiment")

func (h *Head) check(f *yamlfile.File) error {
	if !slices.Contains([]Kind{Comparison, Targets, Benchmarks, Events}, h.Kind) {
		return f.Fault("$.kind", "kind %q: want %s, %s or %s, or none for a comparison", h.Kind, Targets, Benchmarks, Events)
	}
	if h.Title == "" {
		return f.Fault("$.title", "title is missing")
	}
	return nil
}

// NginxConf parses the template of the fronts' configuration; nil without one. The error is a
// *yamlfile.Error.
func (h *Head) NginxConf() (*template.Template, error) {
	if h.Nginx == "" {
		return nil, nil
	}
	file := filepath.Join(h.Dir, h.Nginx)
	t, err := contender.ParseNginxConf(file)
	if err != nil {
		return nil, &yamlfile.Error{File: file, What: err.Error()}
	}
	return t, nil
}
