package dialect

import (
	"errors"
	"fmt"
	"io"
)

// ExitError is returned when the tool would have exited with this code. Its messages have been
// written.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// End returns the exit code.
func (e *ExitError) End(_, _ io.Writer) (code int) { return e.Code }

// UsageError is the reason not to run: the command line is invalid, or it requests a text such as
// the help.
type UsageError struct {
	Tool   string
	Reason error  // nil if a text was requested
	Text   string // the requested text
	Code   int    // the tool's exit code
}

func (e *UsageError) Error() string {
	if e.Reason == nil {
		return "the command line requests no run"
	}
	return e.Reason.Error()
}

func (e *UsageError) Unwrap() error { return e.Reason }

// End prints the text or the reason and returns the exit code.
func (e *UsageError) End(stdout, stderr io.Writer) (code int) {
	if e.Reason == nil {
		fmt.Fprint(stdout, e.Text)
	} else {
		fmt.Fprintf(stderr, "%v\nsee \"tare %s -h\"\n", e.Reason, e.Tool)
	}
	return e.Code
}

// Usage returns err as a *UsageError.
func Usage(tool string, err error, code int) error {
	if own, ok := errors.AsType[*UsageError](err); ok {
		return own
	}
	return &UsageError{Tool: tool, Reason: err, Code: code}
}
