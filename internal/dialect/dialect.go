// Package dialect holds what the emulations of other load generators share: their run, tables of
// command-line flags, exit codes and usage errors. Its subpackages accept the command lines of ab,
// siege and wrk and write their reports.
package dialect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/dialect/getopt"
)

// Apply sets the flags of a tool's command line, and returns the other arguments.
func Apply(tool string, args []string, flags []getopt.Flag, order getopt.Order) (rest []string, err error) {
	rest, err = getopt.Parse(args, flags, order)
	if _, ok := errors.AsType[*getopt.UnknownError](err); ok {
		return nil, fmt.Errorf("%s: %w%s", tool, err, unsupported(tool, flags))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	return rest, nil
}

// unsupported returns a clause that names the tool's unsupported flags.
func unsupported(tool string, flags []getopt.Flag) string {
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
