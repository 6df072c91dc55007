//go:build linux

package cli

import (
	"errors"
	"fmt"

	"github.com/tarehq/tare/internal/lab"
)

// optionFlags returns the flags that set the lab's options.
func optionFlags() map[lab.Option]string {
	return map[lab.Option]string{
		lab.OptionBlocks:      "--blocks",
		lab.OptionWarmup:      "--warmup",
		lab.OptionMeasure:     "--measure",
		lab.OptionCores:       "--cores",
		lab.OptionConnections: "--connections",
		lab.OptionRate:        "--rate",
		lab.OptionScenarios:   "--scenarios",
		lab.OptionBenchTime:   "--measure",
		lab.OptionProcs:       "--cores",
		lab.OptionUntil:       "--until, --within",
		lab.OptionOnly:        "--only",
		lab.OptionOut:         "--out",
		lab.OptionTune:        "--tune",
		lab.OptionGenerator:   "--on",
		lab.OptionBuildA:      "--a",
		lab.OptionBuildB:      "--b",
	}
}

// withFlags adds the flag to an error of the lab, which does not know the command line.
func withFlags(err error) error {
	if e, ok := errors.AsType[*lab.UsageError](err); ok && e.Option != "" {
		return fmt.Errorf("%s: %s", optionFlags()[e.Option], e.What)
	}
	if errors.Is(err, lab.ErrNoExperiment) {
		return fmt.Errorf("%w; --list shows all", err)
	}
	return err
}
