package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Exit is the error of a tool that exits without a report, or with a code other than 0: what it
// prints, and the code.
type Exit struct {
	Code           int
	Stdout, Stderr string
}

func (e *Exit) Error() string {
	return cmp.Or(strings.TrimRight(e.Stderr, "\n"), fmt.Sprintf("exit code %d", e.Code))
}

// Usage returns err if it is an *Exit, or else the Exit of a tool that prints err and names its
// help.
func Usage(tool string, err error, code int) error {
	if own, ok := errors.AsType[*Exit](err); ok {
		return own
	}
	return &Exit{Code: code, Stderr: fmt.Sprintf("%v\nsee \"tare %s -h\"\n", err, tool)}
}

// Print returns the effect of a flag with which a tool prints a text and exits.
func Print(text string, code int) func(value string) error {
	return func(string) error { return &Exit{Code: code, Stdout: text} }
}
