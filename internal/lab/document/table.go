// Package document holds a report as a tree of blocks, and writes it as text, Markdown or HTML.
// Columns of tables are declared once, for people and, as CSV, for programs.
package document

import (
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

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

// OnPage reports whether the page is among the outputs; 0 is all.
func (o Outputs) OnPage() bool { return o == 0 || o&Page != 0 }

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

// Table is a table whose first columns are aligned at the left, the others at the right.
type Table struct {
	Class string
	Left  int
	Heads []Head
	Lines []TableLine
}

// Head is the head of a column; a line break is one on pages only. Class is that of its cells on a
// page, too. In are the outputs that show the column; 0 is all.
type Head struct {
	Text, Class string
	In          Outputs
}

// TableLine is a line of a table.
type TableLine struct {
	Class string
	Cells []Cell
}

// Cell is a cell of a table. Small is below Text, on a page only.
type Cell struct{ Text, Small, Class string }

// NewTable returns a table of texts.
func NewTable(left int, heads []string, lines [][]string) *Table {
	t := &Table{Left: left}
	for _, head := range heads {
		t.Heads = append(t.Heads, Head{Text: head})
	}
	for _, line := range lines {
		t.Add("", line...)
	}
	return t
}

// Add adds a line of texts.
func (t *Table) Add(class string, texts ...string) {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = text
	}
	t.Lines = append(t.Lines, TableLine{class, cells})
}

// Rows returns a table with a line for each row.
func Rows[T any](left int, columns []Column[T], rows []T, class func(T) string) *Table {
	t := &Table{Left: left}
	columns = slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return c.In == 0 })
	for _, c := range columns {
		t.Heads = append(t.Heads, Head{c.Head, "", c.In})
	}
	for _, row := range rows {
		var line TableLine
		if class != nil {
			line.Class = class(row)
		}
		for _, c := range columns {
			shown := Cell{Text: c.Text(row)}
			if c.Class != nil {
				shown.Class = c.Class(row)
			}
			line.Cells = append(line.Cells, shown)
		}
		t.Lines = append(t.Lines, line)
	}
	return t
}

// For returns the columns of an output, as texts.
func (t *Table) For(out Outputs) (heads []string, lines [][]string) {
	lines = make([][]string, len(t.Lines))
	for c, head := range t.Heads {
		if head.In != 0 && head.In&out == 0 {
			continue
		}
		heads = append(heads, head.Text)
		for i, line := range t.Lines {
			text := ""
			if c < len(line.Cells) {
				text = line.Cells[c].Text
			}
			lines[i] = append(lines[i], text)
		}
	}
	return heads, lines
}

func (t *Table) text(w *writer) {
	heads, lines := t.For(w.Out)
	widths := make([]int, len(heads))
	all := append([][]string{heads}, lines...)
	for _, line := range all {
		for c := range line {
			line[c] = strings.ReplaceAll(line[c], "\n", " ")
			if w.Markdown {
				line[c] = strings.ReplaceAll(line[c], "|", `\|`)
			}
			widths[c] = max(widths[c], len([]rune(line[c])))
		}
	}
	for i, line := range all {
		w.WriteString(w.line(t.Left, widths, line))
		if i == 0 && w.Markdown {
			w.WriteString("|" + strings.Repeat("---|", t.Left) + strings.Repeat("--:|", len(heads)-t.Left) + "\n")
		}
	}
	w.WriteByte('\n')
}

func (w *writer) line(left int, widths []int, cells []string) string {
	if w.Markdown {
		return "| " + strings.Join(cells, " | ") + " |\n"
	}
	var b strings.Builder
	for c, cell := range cells {
		space := strings.Repeat(" ", widths[c]-len([]rune(cell)))
		if c < left {
			b.WriteString("  " + cell + space)
		} else {
			b.WriteString("  " + space + cell)
		}
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// ClassOf returns the classes of a cell on the page: its column's and its own.
func (t *Table) ClassOf(column int, own string) string {
	class := t.Heads[column].Class
	if class == "" && column > 0 && column < t.Left {
		class = "wrap"
	}
	return strings.TrimSpace(class + " " + own)
}
