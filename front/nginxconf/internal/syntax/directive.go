package syntax

import (
	"fmt"
	"strconv"
)

// Directive is a statement with its block.
type Directive struct {
	Name     string
	Args     []string
	Block    []*Directive
	HasBlock bool
	Pos      Position
	Number   int   // in the order of reading
	Spec     *Spec // its row of the table, once it was checked
}

// Position is a place in a file: lines and columns count from 1, columns in bytes.
type Position struct {
	File         string
	Line, Column int
}

// Where returns the directive's position for messages.
func (d *Directive) Where() string { return fmt.Sprintf("%s:%d", d.Pos.File, d.Pos.Line) }

// Place returns the directive's position for a Pos field of package conf.
func (d *Directive) Place() string {
	return d.Pos.File + ":" + strconv.Itoa(d.Pos.Line) + ":" + strconv.Itoa(d.Pos.Column)
}

// IsOff reports whether "off" is the only argument.
func (d *Directive) IsOff() bool { return len(d.Args) == 1 && d.Args[0] == "off" }

// Errorf returns an error about the directive.
func (d *Directive) Errorf(format string, args ...any) *Error {
	return &Error{Pos: d.Pos, Directive: d.Name, Number: d.Number, Text: fmt.Sprintf(format, args...)}
}

// Error is an error in the text of a configuration.
type Error struct {
	Pos       Position
	Directive string // its name; "" if the error is not about one
	Number    int    // index of the directive, or of the next one
	Text      string
}
