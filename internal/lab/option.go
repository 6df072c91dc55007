package lab

import "fmt"

// Option names an option in a UsageError: a field of Options, or a key of an experiment's trials,
// which Options.Adjust may have changed.
type Option string

// The options of this package.
const (
	OptionBlocks      Option = "blocks"
	OptionWarmup      Option = "warmup"
	OptionMeasure     Option = "measure"
	OptionCores       Option = "cores"
	OptionConnections Option = "connections"
	OptionRate        Option = "rate"
	OptionScenarios   Option = "scenarios"
	OptionUntil       Option = "until"
	OptionOnly        Option = "only"
	OptionOut         Option = "out"
	OptionGenerator   Option = "generator"
	OptionBuildA      Option = "build A"
	OptionBuildB      Option = "build B"
)

// UsageError is an option that is invalid, or cannot be used on this machine.
type UsageError struct {
	Option Option // "" if it is the only one that can be at fault
	What   string

	item string // index in a list of a file, such as [2], or ""
}

func (e *UsageError) Error() string {
	if e.Option == "" {
		return e.What
	}
	return fmt.Sprintf("%s: %s", e.Option, e.What)
}

// UsageErrorf returns a UsageError.
func UsageErrorf(o Option, format string, args ...any) *UsageError {
	return &UsageError{Option: o, What: fmt.Sprintf(format, args...)}
}

func (e *UsageError) at(i int) *UsageError {
	e.item = fmt.Sprintf("[%d]", i)
	return e
}
