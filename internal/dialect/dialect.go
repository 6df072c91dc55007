// Package dialect has what the tools have in common whose command lines we understand and
// whose reports we write: what a flag does, and how there is an end without a run or before its time.
package dialect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/dialect/getopt"
)

// Flag is one of a tool's command line, and what it does to the command C.
type Flag[C any] struct {
	getopt.Flag
	Set func(c *C, value string) error // nil if the flag is not supported
}

// Apply reads a tool's command line into c, flag by flag, and returns what is no flag.
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
	panic("dialect: BUG: a flag was given that there is not")
}

// unsupported is a clause that names the tool's flags that are not supported.
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
	return fmt.Sprintf("; all of %s's are but %s", tool, strings.Join(names, ", "))
}

// Number reads a whole number from least to most.
func Number(value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q: want a whole number from %d to %d", value, least, most)
	}
	return n, nil
}
