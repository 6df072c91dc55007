package document

import (
	"strings"
)

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
	for _, c := range columns {
		if c.In != 0 {
			t.Heads = append(t.Heads, Head{c.Head, "", c.In})
		}
	}
	for _, row := range rows {
		var line TableLine
		if class != nil {
			line.Class = class(row)
		}
		for _, c := range columns {
			if c.In == 0 {
				continue
			}
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

func (t *Table) html(w *writer) {
	w.WriteString(`<div class="scroll">`)
	w.printf("<table%s>\n<tr>", attribute(t.Class))
	for i, head := range t.Heads {
		if head.In == 0 || head.In&Page != 0 {
			w.WriteString(element("th", t.class(i, ""), escaped(head.Text)))
		}
	}
	w.WriteString("</tr>\n")
	for _, line := range t.Lines {
		w.printf("<tr%s>", attribute(line.Class))
		for i, cell := range line.Cells {
			if in := t.Heads[i].In; in != 0 && in&Page == 0 {
				continue
			}
			text := escaped(cell.Text)
			if cell.Small != "" {
				text += "<br><small>" + escaped(cell.Small) + "</small>"
			}
			w.WriteString(element("td", t.class(i, cell.Class), text))
		}
		w.WriteString("</tr>\n")
	}
	w.WriteString("</table></div>\n")
}

// class returns the class of a cell in a column.
func (t *Table) class(column int, own string) string {
	class := t.Heads[column].Class
	if class == "" && column > 0 && column < t.Left {
		class = "wrap"
	}
	return strings.TrimSpace(class + " " + own)
}
