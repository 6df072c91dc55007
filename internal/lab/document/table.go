// Package document holds a report as a tree of blocks, and writes it as text, Markdown or HTML.
// Columns of tables are declared once, for people and, as CSV, for programs.
package document

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"

	"github.com/tarehq/tare/internal/stat"
)

// Outputs is a set of outputs that show a column.
type Outputs uint8

// The outputs for people. A column with a Name is also in CSV.
const (
	Brief    Outputs = 1 << iota // the first screen of a terminal
	Terminal                     // the details on a terminal, and Markdown
	Page                         // HTML
)

// Column is a column of a table whose lines show values of a type.
type Column[T any] struct {
	Name string         // in CSV, with the unit; "" leaves it out
	CSV  func(T) string // the cell there

	Head  string // for people; a line break is one on pages only
	In    Outputs
	Text  func(T) string // the cell
	Class func(T) string // of the cell on a page; may be nil
}

// For adds the form for people to a column.
func (c Column[T]) For(in Outputs, head string, text func(T) string) Column[T] {
	c.In, c.Head, c.Text = in, head, text
	return c
}

// Text returns a column of CSV.
func Text[T any](name string, of func(T) string) Column[T] { return Column[T]{Name: name, CSV: of} }

// Count returns a column of CSV with whole numbers.
func Count[T any](name string, of func(T) int) Column[T] {
	return Text(name, func(v T) string { return strconv.Itoa(of(v)) })
}

// Figure returns a column of CSV with numbers.
func Figure[T any](name string, of func(T) float64) Column[T] {
	return Text(name, func(v T) string { return Number(of(v)) })
}

// Interval returns three columns of CSV: a figure and its bounds, whose names end in _lo and _hi.
func Interval[T any](name string, of func(T) stat.Interval) []Column[T] {
	return []Column[T]{
		Figure(name, func(v T) float64 { return of(v).Mid }),
		Figure(name+"_lo", func(v T) float64 { return of(v).Lo }),
		Figure(name+"_hi", func(v T) float64 { return of(v).Hi }),
	}
}

// Number formats a number for CSV. It returns "" for NaN and infinities.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// WriteCSV writes the columns that have a Name.
func WriteCSV[T any](w io.Writer, columns []Column[T], lines []T) error {
	out := csv.NewWriter(w) // it keeps its first error
	write := func(cell func(*Column[T]) string) {
		var cells []string
		for i := range columns {
			if columns[i].Name != "" {
				cells = append(cells, cell(&columns[i]))
			}
		}
		_ = out.Write(cells)
	}
	write(func(c *Column[T]) string { return c.Name })
	for _, line := range lines {
		write(func(c *Column[T]) string { return c.CSV(line) })
	}
	out.Flush()
	return out.Error()
}
