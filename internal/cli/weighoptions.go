//go:build linux

package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tarehq/tare/internal/lab"
)

// flagRule is a flag of weigh that changes what is measured.
type flagRule struct {
	name     string
	kinds    []lab.Kind // of the experiments to which it applies
	repeated bool       // reports repeat it; they state the seed in any case
}

// flagRules returns the rules in the order in which reports repeat the flags.
func flagRules() []flagRule {
	servers := []lab.Kind{lab.Comparison}
	all := []lab.Kind{lab.Comparison, lab.Targets, lab.Benchmarks, lab.Events}
	blocks := all[:3] // those of all but events
	return []flagRule{
		{"full", blocks, true},
		{"quick", all, true},
		{"only", all, true},
		{"scenarios", []lab.Kind{lab.Comparison, lab.Benchmarks}, true},
		{"blocks", blocks, true},
		{"until", servers, true},
		{"within", servers, true},
		{"warmup", []lab.Kind{lab.Comparison, lab.Targets}, true},
		{"measure", all, true},
		{"cores", servers, true},
		{"connections", []lab.Kind{lab.Comparison, lab.Events}, true}, // of events, those of streams and slow clients
		{"rate", servers, true},
		{"on", servers, true},
		{"address", servers, true},
		{"seed", blocks, false},
		{"agent-program", servers, false},
		{"fail-if", servers, false},
	}
}

// othersFlags returns the flags that do not apply to experiments of a kind.
func othersFlags(k lab.Kind) (names []string) {
	for _, r := range flagRules() {
		if !slices.Contains(r.kinds, k) {
			names = append(names, r.name)
		}
	}
	return names
}

// rejectOthers returns an error if a flag is set that does not apply to the kind of the named
// experiment, or to experiments of the project.
func (f *weighFlags) rejectOthers(k lab.Kind, name string) error {
	why := map[lab.Kind]string{
		lab.Benchmarks: "which runs Go benchmarks", lab.Events: "which counts events",
		lab.Targets: "whose rows determine the load",
	}[k]
	for _, other := range othersFlags(k) {
		if f.isSet(other) {
			return fmt.Errorf("--%s does not apply to %s, %s", other, name, why)
		}
	}
	return f.own.rejectFor(fmt.Sprintf("%q", name))
}

func flagOf(o lab.Option) string {
	switch o {
	case lab.OptionUntil:
		return "--until, --within"
	case lab.OptionGenerator:
		return "--on"
	case lab.OptionBuildA:
		return "--a"
	case lab.OptionBuildB:
		return "--b"
	}
	return "--" + string(o)
}

// withFlags adds the flag to an error of the lab, which does not know the command line.
func withFlags(err error) error {
	if e, ok := errors.AsType[*lab.UsageError](err); ok && e.Option != "" {
		return fmt.Errorf("%s: %s", flagOf(e.Option), e.What)
	}
	if errors.Is(err, lab.ErrNoExperiment) {
		return fmt.Errorf("%w; --list shows all", err)
	}
	return err
}
