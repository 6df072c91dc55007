//go:build linux

package cli

import (
	"fmt"
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
	return lab.KindOf(filepath.Join(w.root, "experiments", named[0]))
}

// serverFlags lists the flags that do not apply to Go benchmarks.
func serverFlags() []string {
	return []string{"warmup", "cores", "connections", "scenarios", "rate", "sweep", "why", "until",
		"within", "on", "address", "agent-program", "fail-if"}
}

// checkForBenchmarks rejects flags that do not apply to Go benchmarks.
func (f *weighFlags) checkForBenchmarks(name string) error {
	if err := f.reject(name+", which runs Go benchmarks", serverFlags()...); err != nil {
		return err
	}
	return f.own.rejectFor(fmt.Sprintf("%q", name))
}

// dropServerFlags removes those flags and returns their names.
func (f *weighFlags) dropServerFlags() (dropped []string) {
	isSet := f.isSet
	for _, name := range serverFlags() {
		if isSet(name) {
			dropped = append(dropped, "--"+name)
		}
	}
	f.run.Why = false
	f.isSet = func(name string) bool { return isSet(name) && !slices.Contains(serverFlags(), name) }
	f.generator = generatorFlags{isSet: f.isSet}
	return dropped
}
