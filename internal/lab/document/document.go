package document

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/internal/textbar"
)

// Document is a report as a tree of blocks. Its text is for a terminal, or Markdown; Page is HTML.
type Document struct {
	Title    string // of Markdown and of the page, with the Question below it
	Question string
	Blocks   []Block
}

// Block is a part of a document.
type Block interface{ text(w *writer) }

// Add adds blocks.
func (d *Document) Add(blocks ...Block) { d.Blocks = append(d.Blocks, blocks...) }

// Form is how a text is written. The zero value is for a terminal.
type Form struct {
	Markdown bool
	Width    int // of a line of prose; 0 is Width
}

// Width is the width of a line of prose in a report.
const Width = 100

type writer struct {
	Form
	strings.Builder
}

// Text returns the document as text.
func (d *Document) Text(f Form) string {
	f.Width = cmp.Or(f.Width, Width)
	w := &writer{Form: f}
	if f.Markdown {
		fmt.Fprintf(w, "# %s\n\n%s\n\n", d.Title, d.Question)
	}
	for _, b := range d.Blocks {
		b.text(w)
	}
	return w.String()
}

//go:embed page.html
var pageSource string

// Page returns the document as one HTML file without external resources. Styles are added to those
// of all pages.
func (d *Document) Page(styles string) string {
	t := template.New("")
	write := func(name string, data any) template.HTML {
		var b strings.Builder
		if err := t.ExecuteTemplate(&b, name, data); err != nil {
			panic("document: BUG: " + err.Error())
		}
		return template.HTML(b.String())
	}
	template.Must(t.Funcs(template.FuncMap{
		"draw": func(b Block) template.HTML { return write(fmt.Sprintf("%T", b), b) },
		"lines": func(text string) template.HTML { // line breaks stay
			return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(text), "\n", "<br>"))
		},
	}).Parse(pageSource))
	return page.Framed(d.Title, styles, string(write("document", d)))
}

// Heading is a line above other blocks.
type Heading struct {
	Level int // from 2
	Text  string
	ID    string // of links on the page; may be ""
	Link  string // of the page; may be ""
}

func (h Heading) text(w *writer) {
	if w.Markdown {
		w.WriteString(strings.Repeat("#", h.Level) + " ")
	}
	w.WriteString(h.Text + "\n\n")
}

// Paragraph is prose; "" is nothing.
type Paragraph struct{ Class, Text string }

// Note returns a paragraph that explains others.
func Note(text string) Paragraph { return Paragraph{"note", text} }

func (p Paragraph) text(w *writer) {
	if p.Text != "" {
		w.WriteString(wrap(p.Text, w.Width, "") + "\n\n")
	}
}

// Lines are problems, each as it is in a text. None is nothing.
type Lines []string

func (l Lines) text(w *writer) {
	for _, line := range l {
		w.WriteString(line + "\n")
	}
	if len(l) > 0 {
		w.WriteByte('\n')
	}
}

// Items is a list. An empty one is nothing.
type Items struct {
	Class string
	Texts []string
}

// Warnings returns a list of warnings.
func Warnings(texts []string) Items { return Items{"warnings", texts} }

func (i Items) text(w *writer) {
	first, next := "  ", "    "
	if w.Markdown {
		first, next = "- ", "  "
	}
	for _, text := range i.Texts {
		indent := first
		for line := range strings.Lines(text) {
			w.WriteString(indent + wrap(line, w.Width-len(next), next) + "\n")
			indent = next
		}
	}
	if len(i.Texts) > 0 {
		w.WriteByte('\n')
	}
}

// Terms is a list of names with descriptions. Those without a description are left out. Codes
// are names of files or settings.
type Terms struct {
	Codes bool
	Pairs [][2]string
}

func (t Terms) text(w *writer) {
	var all []string
	for _, p := range t.Pairs {
		if p[1] != "" {
			all = append(all, p[0]+": "+p[1])
		}
	}
	Items{Texts: all}.text(w)
}

// Chart is a drawing on a page. In a text it is Text, or nothing.
type Chart struct {
	Title   string // may be ""
	Drawing *page.Drawing
	Caption string
	Text    string
}

func (c Chart) text(w *writer) {
	if c.Text != "" {
		w.WriteString("  " + c.Text + "\n\n")
	}
}

// Details are blocks that a reader of the page can hide. In a text the summary is their heading.
type Details struct {
	Class, Summary string
	Open           bool
	Blocks         []Block
}

func (d Details) text(w *writer) {
	Heading{Level: 3, Text: d.Summary}.text(w)
	for _, b := range d.Blocks {
		b.text(w)
	}
}

// Links is a list of links to headings of the page, as pairs of ID and text.
type Links [][2]string

func (Links) text(*writer) {}

// wrap breaks a text into lines of at most width characters. All but the first have an indent.
func wrap(text string, width int, indent string) string {
	return textbar.Wrap(strings.Join(strings.Fields(text), " "), width, indent)
}
