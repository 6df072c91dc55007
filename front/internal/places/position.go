package places

import (
	"errors"
	"regexp"
)

// Error is an error with its position in the configuration, FILE:LINE or FILE:LINE:COLUMN. Its text
// has the line, as messages of the parser do.
type Error struct {
	pos string
	err error
}

// At adds a position to an error, unless it has one or pos is empty.
func At(pos string, err error) error {
	var inner *Error
	if err == nil || pos == "" || errors.As(err, &inner) {
		return err
	}
	return &Error{pos, err}
}

// Error implements error.
func (e *Error) Error() string { return Line(e.pos) + ": " + e.err.Error() }

// Unwrap is for errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.err }

// Position returns the position, with the column if it is known.
func (e *Error) Position() string { return e.pos }

// Line returns a position without its column.
func Line(pos string) string {
	return regexp.MustCompile(`(:\d+):\d+$`).ReplaceAllString(pos, "$1")
}
