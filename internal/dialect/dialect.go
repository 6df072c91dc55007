// Package dialect holds what the emulations of other load generators share: tables of their
// command-line flags, exit codes and usage errors. Its subpackages accept the command lines of ab,
// siege and wrk and write their reports.
package dialect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/dialect/getopt"
)

// Flag is a flag of a tool's command line and its effect on the command C.
type Flag[C any] struct {
	getopt.Flag
	Set func(c *C, value string) error // nil for an unsupported flag
}

// Apply parses a tool's command line into c, flag by flag, and returns the other arguments.
func Apply[C any](tool string, c *C, args []string, flags []Flag[C], order getopt.Order) (rest []string, err error) {
	plain := make([]getopt.Flag, len(flags))
	for i := range flags {
		plain[i] = flags[i].Flag
	}
	given, rest, err := getopt.Parse(args, plain, order)
	if err != nil && getopt.Unknown(err) != "" {
		return nil, fmt.Errorf("%s: %w%s", tool, err, unsupported(tool, flags))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	for _, g := range given {
		f := find(flags, g.Flag)
		if f.Set == nil {
			return nil, fmt.Errorf("%s: flag %s is not supported%s", tool, g.Spelling, unsupported(tool, flags))
		}
		if err := f.Set(c, g.Value); err != nil {
			return nil, fmt.Errorf("%s: flag %s: %w", tool, g.Spelling, err)
		}
	}
	return rest, nil
}

func find[C any](flags []Flag[C], plain getopt.Flag) *Flag[C] {
	for i := range flags {
		if flags[i].Flag == plain {
			return &flags[i]
		}
	}
	panic("dialect: BUG: parsed an unknown flag")
}

// unsupported returns a clause that names the tool's unsupported flags.
func unsupported[C any](tool string, flags []Flag[C]) string {
	var names []string
	for _, f := range flags {
		switch {
		case f.Set != nil:
		case f.Short != 0:
			names = append(names, "-"+string(f.Short))
		default:
			names = append(names, "--"+f.Long)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s's unsupported flags are %s", tool, strings.Join(names, ", "))
}

// Number parses an integer from least to most.
func Number(value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q: want an integer from %d to %d", value, least, most)
	}
	return n, nil
}
