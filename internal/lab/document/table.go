// Package document holds a report as a tree of blocks, and writes it as text, Markdown or HTML.
// Columns of tables are declared once, for people and, as CSV, for programs.
package document

import (
	"encoding/csv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/stat"
)

// Column is a column of a table whose lines show values of a type. It is for programs if it has a
// Name, and for people if it has a Text.
type Column[T any] struct {
	Name string         // in CSV, with the unit
	CSV  func(T) string // the cell there

	Head  string         // for people; a line break is one on pages only
	Text  func(T) string // the cell
	Class func(T) string // of the cell on a page; may be nil
	Brief bool           // it is also on the first screen of a terminal
}

// For adds the form for people to a column.
func (c Column[T]) For(head string, text func(T) string) Column[T] {
	c.Head, c.Text = head, text
	return c
}

// InBrief adds a column for people to the first screen of a terminal.
func (c Column[T]) InBrief() Column[T] {
	c.Brief = true
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

// CSV returns the columns that have a Name.
func CSV[T any](columns []Column[T], lines []T) string {
	var text strings.Builder
	out := csv.NewWriter(&text)
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
	return text.String()
}

// Table is a table whose first columns are aligned at the left, the others at the right.
type Table struct {
	Class string
	Left  int
	Heads []Head
	Lines []TableLine
}

// Head is the head of a column; a line break is one on pages only. Class is that of its cells on a
// page, too.
type Head struct{ Text, Class string }

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

// Rows returns a table for people with a line for each row. With brief it has the columns of the
// first screen.
func Rows[T any](brief bool, left int, columns []Column[T], rows []T, class func(T) string) *Table {
	t := &Table{Left: left}
	columns = slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool {
		return c.Text == nil || brief && !c.Brief
	})
	for _, c := range columns {
		t.Heads = append(t.Heads, Head{Text: c.Head})
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

func (t *Table) text(w *writer) {
	lines := make([][]string, 1+len(t.Lines))
	for _, head := range t.Heads {
		lines[0] = append(lines[0], head.Text)
	}
	for i, line := range t.Lines {
		for _, cell := range line.Cells {
			lines[i+1] = append(lines[i+1], cell.Text)
		}
	}
	widths := make([]int, len(t.Heads))
	for _, line := range lines {
		for c := range line {
			line[c] = strings.ReplaceAll(line[c], "\n", " ")
			if w.Markdown {
				line[c] = strings.ReplaceAll(line[c], "|", `\|`)
			}
			widths[c] = max(widths[c], len([]rune(line[c])))
		}
	}
	for i, line := range lines {
		w.WriteString(w.line(t.Left, widths, line))
		if i == 0 && w.Markdown {
			w.WriteString("|" + strings.Repeat("---|", t.Left) + strings.Repeat("--:|", len(line)-t.Left) + "\n")
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
