package files

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"strings"
)

// listingSource is the page, in which {path} and {content} are replaced.
//
//go:embed listing.html
var listingSource string

// write writes the page. It uses no template: programs with html/template contain all exported
// methods of all their types.
func (d *listedDir) write(b *bytes.Buffer) {
	before, rest, _ := strings.Cut(listingSource, "{path}")
	middle, after, _ := strings.Cut(rest, "{content}")
	b.WriteString(before)
	b.WriteString(html.EscapeString(d.Path))
	b.WriteString(middle)
	d.writeHeading(b)
	d.writeTable(b)
	switch {
	case d.Cut:
		fmt.Fprintf(b, "<p>The first %d names are shown; there are more.</p>\n", d.Most)
	case len(d.Entries) == 0:
		b.WriteString("<p>Nothing here.</p>\n")
	}
	b.WriteString("<p><small>Times are UTC.</small></p>\n")
	b.WriteString(after)
}

// writeHeading writes the path, with links to the parents.
func (d *listedDir) writeHeading(b *bytes.Buffer) {
	b.WriteString("<h1>")
	for _, p := range d.Parents {
		writeLink(b, p.Href, p.Name, "")
		if p.Name == "/" {
			b.WriteByte(' ')
		} else {
			b.WriteString(" / ")
		}
	}
	if d.Up {
		b.WriteString(html.EscapeString(d.Last))
	} else {
		b.WriteByte('/')
	}
	b.WriteString("</h1>\n")
}

func (d *listedDir) writeTable(b *bytes.Buffer) {
	b.WriteString("<table>\n<thead><tr>")
	for _, c := range d.Columns {
		b.WriteString(`<th scope="col"`)
		if c.Sorted != "" {
			fmt.Fprintf(b, ` aria-sort="%s"`, c.Sorted)
		}
		b.WriteByte('>')
		writeLink(b, c.Href, c.Name, "")
		b.WriteString("</th>")
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	if d.Up {
		b.WriteString("<tr><td><a href=\"../\" rel=\"up\">..</a></td><td></td><td></td></tr>\n")
	}
	for i := range d.Entries {
		e, suffix := &d.Entries[i], ""
		if e.Dir {
			suffix = "/"
		}
		b.WriteString("<tr><td>")
		writeLink(b, "./"+e.Href, e.Name, suffix) // the dot: a name may look like a scheme
		modified := e.Modified.UTC()
		fmt.Fprintf(b, "</td><td>%s</td><td><time datetime=\"%s\">%s</time></td></tr>\n", e.Bytes(),
			modified.Format("2006-01-02T15:04:05Z"), modified.Format("2006-01-02 15:04"))
	}
	b.WriteString("</tbody>\n</table>\n")
}

func writeLink(b *bytes.Buffer, href, name, suffix string) {
	fmt.Fprintf(b, `<a href="%s">%s%s</a>`, html.EscapeString(href), html.EscapeString(name), suffix)
}
