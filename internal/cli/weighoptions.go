//go:build linux

package cli

import (
	"errors"
	"fmt"

	"github.com/tarehq/tare/internal/lab"
)

func flagOf(o lab.Option) string {
	switch o {
	case lab.OptionBenchTime:
		return "--measure"
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
