package document

import (
	"cmp"
	"fmt"
	"strings"
)

// width is the width of a line of prose on a terminal.
const width = 100

// Document collects headings, prose and tables, for a terminal or as Markdown.
type Document struct {
	Markdown bool
	Width    int // of a line of prose; 0 is 100 characters
	text     strings.Builder
}

// String returns the text.
func (d *Document) String() string { return d.text.String() }

// Lines returns the number of lines.
func (d *Document) Lines() int { return strings.Count(d.text.String(), "\n") }

func (d *Document) width() int { return cmp.Or(d.Width, width) }

// Line writes a line as it is.
func (d *Document) Line(format string, args ...any) {
	fmt.Fprintf(&d.text, format+"\n", args...)
}

// Heading writes a line that is above a table or paragraphs.
func (d *Document) Heading(format string, args ...any) {
	mark := ""
	if d.Markdown {
		mark = "## "
	}
	fmt.Fprintf(&d.text, "%s%s\n\n", mark, fmt.Sprintf(format, args...))
}

// Paragraph writes prose, unless it is "".
func (d *Document) Paragraph(text string) {
	if text != "" {
		fmt.Fprintf(&d.text, "%s\n\n", wrap(text, d.width()))
	}
}

// Items writes a list. An empty list is nothing.
func (d *Document) Items(texts []string) {
	first, next := "  ", "    "
	if d.Markdown {
		first, next = "- ", "  "
	}
	for _, text := range texts {
		fmt.Fprintf(&d.text, "%s%s\n", first, strings.ReplaceAll(wrap(text, d.width()-len(next)), "\n", "\n"+next))
	}
	if len(texts) > 0 {
		d.text.WriteByte('\n')
	}
}

// Table writes a table whose first columns are aligned at the left, the others at the right.
func (d *Document) Table(left int, heads []string, lines [][]string) {
	widths := make([]int, len(heads))
	all := append([][]string{heads}, lines...)
	for i, line := range all {
		clean := make([]string, len(heads))
		for c := range clean {
			if c < len(line) {
				clean[c] = strings.ReplaceAll(line[c], "\n", " ")
			}
			if d.Markdown {
				clean[c] = strings.ReplaceAll(clean[c], "|", `\|`)
			}
			widths[c] = max(widths[c], len([]rune(clean[c])))
		}
		all[i] = clean
	}
	for i, line := range all {
		d.text.WriteString(d.line(left, widths, line))
		if i == 0 && d.Markdown {
			d.text.WriteString("|" + strings.Repeat("---|", left) + strings.Repeat("--:|", len(heads)-left) + "\n")
		}
	}
	d.text.WriteByte('\n')
}

// line returns a line of a table.
func (d *Document) line(left int, widths []int, cells []string) string {
	if d.Markdown {
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

// Wrap breaks a text into lines of prose.
func Wrap(text string) string { return wrap(text, width) }

// wrap breaks a text into lines of at most width characters.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
