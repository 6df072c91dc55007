package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// requirement is that each of some flags requires one of others. Names are separated by spaces.
type requirement struct{ flags, anyOf string }

// exclusion is that a flag excludes others. If it has a reason, that begins with a colon.
type exclusion struct{ flag, others, why string }

// checkFlags returns an error for flags that require or exclude each other.
func checkFlags(set *pflag.FlagSet, required []requirement, excluded []exclusion) error {
	isSet := func(name string) bool { return isFlagSet(set, name) }
	for _, rule := range required {
		anyOf := strings.Fields(rule.anyOf)
		for _, flag := range strings.Fields(rule.flags) {
			if isSet(flag) && !slices.ContainsFunc(anyOf, isSet) {
				return fmt.Errorf("--%s requires --%s", flag, strings.Join(anyOf, " or --"))
			}
		}
	}
	for _, rule := range excluded {
		for _, other := range strings.Fields(rule.others) {
			if isSet(rule.flag) && isSet(other) {
				return fmt.Errorf("--%s and --%s are mutually exclusive%s", rule.flag, other, rule.why)
			}
		}
	}
	return nil
}

// checkAboveZero returns an error for an explicit 0 of a flag whose 0 means the default.
func checkAboveZero(set *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		flag := set.Lookup(name)
		if zero := flag.Value.String(); flag.Changed && (zero == "0" || zero == "0s") {
			return fmt.Errorf("--%s %s: want a value above 0", name, zero)
		}
	}
	return nil
}

// isFlagSet reports whether a flag is on the command line. Scripts may write --http2=false or
// --cert "" for flags that are not set.
func isFlagSet(set *pflag.FlagSet, name string) bool {
	flag := set.Lookup(name)
	text := flag.Value.String()
	if list, ok := flag.Value.(pflag.SliceValue); ok && len(list.GetSlice()) == 0 {
		return false
	}
	return flag.Changed && text != "" && (text != "false" || flag.Value.Type() != "bool")
}

// parsedFlag is a flag whose value is parsed by a function.
type parsedFlag[T any] struct {
	kind  string
	to    *T
	parse func(text string) (T, error)
	text  string // the last value
}

func parsed[T any](kind string, to *T, parse func(text string) (T, error)) pflag.Value {
	return &parsedFlag[T]{kind: kind, to: to, parse: parse}
}

// Type implements pflag.Value.
func (f *parsedFlag[T]) Type() string { return f.kind }

// String implements pflag.Value.
func (f *parsedFlag[T]) String() string { return f.text }

// Set implements pflag.Value.
func (f *parsedFlag[T]) Set(text string) (err error) {
	f.text = text
	*f.to, err = f.parse(text)
	return err
}
