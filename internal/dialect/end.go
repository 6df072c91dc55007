package dialect

import (
	"errors"
	"fmt"
	"io"
)

// ExitError ends a report whose tool would have ended with that exit code. All that it says
// has been written.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// UsageError is why there is no run: the command line is wrong, or asks for a text.
type UsageError struct {
	Tool   string
	Reason error  // nil where a text was asked for
	Text   string // that text
	Code   int    // the tool's exit code
}

func (e *UsageError) Error() string {
	if e.Reason == nil {
		return "no run was asked for"
	}
	return e.Reason.Error()
}

func (e *UsageError) Unwrap() error { return e.Reason }

// End prints the text, or the reason, and returns the exit code.
func (e *UsageError) End(stdout, stderr io.Writer) (code int) {
	if e.Reason == nil {
		fmt.Fprint(stdout, e.Text)
	} else {
		fmt.Fprintf(stderr, "%v\n\"tare %s -h\" lists the flags\n", e.Reason, e.Tool)
	}
	return e.Code
}

// Usage makes a UsageError of what is wrong with a command line, unless it is one.
func Usage(tool string, err error, code int) error {
	if own, ok := errors.AsType[*UsageError](err); ok {
		return own
	}
	return &UsageError{Tool: tool, Reason: err, Code: code}
}
