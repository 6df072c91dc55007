package lab

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Kind is what an experiment is about.
type Kind string

// The kinds of experiments.
const (
	Comparison Kind = ""           // contenders are compared with the control
	Targets    Kind = "targets"    // figures are compared with limits, each under its own condition
	Benchmarks Kind = "benchmarks" // programs that measure themselves; see package benchmark
	Events     Kind = "events"     // what clients receive is counted; see package events
)

// KindOf returns the kind of the experiment in a folder. It returns Comparison if the file cannot
// be parsed, so that ReadExperiment reports why.
func KindOf(dir string) Kind {
	var head struct {
		Kind Kind `yaml:"kind"`
	}
	text, err := os.ReadFile(filepath.Join(dir, ExperimentFile))
	if err != nil || yaml.Unmarshal(text, &head) != nil {
		return Comparison
	}
	return head.Kind
}

// Experiments returns the names of the experiments in a folder, of some kinds or of all.
func Experiments(dir string, kinds ...Kind) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", ExperimentFile))
	for _, f := range files {
		if of := filepath.Dir(f); len(kinds) == 0 || slices.Contains(kinds, KindOf(of)) {
			names = append(names, filepath.Base(of))
		}
	}
	return names, err
}

// checkKind returns a *yamlfile.Error for an unknown kind, whose keys are unknown, too.
func checkKind(dir string, f *yamlfile.File) error {
	if kind := KindOf(dir); kind != Comparison && kind != Targets {
		return f.Fault("$.kind", "kind %q: want %s, %s or %s, or none for a comparison", kind, Targets, Benchmarks,
			Events)
	}
	return nil
}
