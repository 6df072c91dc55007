//go:build linux

package cli

import (
	"path/filepath"
	"slices"

	"github.com/tarehq/tare/internal/lab"
)

// kindOf returns the kind of the experiment that the arguments name; lab.Comparison if they name
// none.
func kindOf(env Env, named []string) lab.Kind {
	if len(named) != 1 || filepath.Ext(named[0]) != "" {
		return lab.Comparison
	}
	w, err := findWorkspace(env, true)
	if err != nil {
		return lab.Comparison
	}
	e, err := lab.ReadExperiment(filepath.Join(w.root, "experiments", named[0]))
	if err != nil {
		return lab.Comparison // the error is reported later
	}
	return e.Kind
}

// dropServerFlags removes the flags that do not apply to Go benchmarks and returns their names.
func (f *weighFlags) dropServerFlags() (dropped []string) {
	isSet, others := f.isSet, othersFlags(lab.Benchmarks)
	for _, name := range others {
		if isSet(name) {
			dropped = append(dropped, "--"+name)
		}
	}
	f.isSet = func(name string) bool { return isSet(name) && !slices.Contains(others, name) }
	f.generator = generatorFlags{}
	return dropped
}
