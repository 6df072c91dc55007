// Package page holds what all HTML reports share: the frame, the style sheet, drawings, chart axes
// and line plots.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Drawing is a chart in SVG. Lengths are in units of its view box, which grows to the sides where
// texts need it. The page's style sheet sets colors and fonts by class, so that a drawing follows
// light and dark.
type Drawing struct {
	Class         string
	Alt           string // text alternative
	Legend        []Key
	Width, Height float64

	from, to float64 // the sides of the view box
	body     strings.Builder
}

// Key explains a color.
type Key struct{ Class, Text string }

// add adds an element with pairs of attributes and values. Empty values are left out.
func (d *Drawing) add(name, title, text string, attributes ...any) {
	fmt.Fprintf(&d.body, "<%s", name)
	for i := 0; i < len(attributes); i += 2 {
		if value := fmt.Sprint(attributes[i+1]); value != "" {
			fmt.Fprintf(&d.body, ` %s="%s"`, attributes[i], template.HTMLEscapeString(value))
		}
	}
	d.body.WriteString(">" + template.HTMLEscapeString(text))
	if title != "" {
		d.body.WriteString("<title>" + template.HTMLEscapeString(title) + "</title>")
	}
	fmt.Fprintf(&d.body, "</%s>", name)
}

// Group adds what draw adds as a group of a class, with a tooltip that may be "".
func (d *Drawing) Group(class, title string, draw func()) {
	fmt.Fprintf(&d.body, "\n<g class=\"%s\">", class)
	if title != "" {
		d.body.WriteString("<title>" + template.HTMLEscapeString(title) + "</title>")
	}
	draw()
	d.body.WriteString("</g>")
}

// Rect adds a rectangle. Like all elements it has a tooltip, which may be "".
func (d *Drawing) Rect(class, title string, x, y, width, height float64) {
	d.add("rect", title, "", "class", class, "x", x, "y", y, "width", math.Max(0, width), "height", height)
}

// Line adds a straight line.
func (d *Drawing) Line(class, title string, x1, y1, x2, y2 float64) {
	d.add("line", title, "", "class", class, "x1", x1, "x2", x2, "y1", y1, "y2", y2)
}

// Path adds a line from SVG path data.
func (d *Drawing) Path(class, title, data string) {
	d.add("path", title, "", "class", class, "d", data)
}

// Text adds a text that starts, ends or has its middle at a place: anchor is "start", "end" or
// "middle".
func (d *Drawing) Text(class, title, text, anchor string, x, y float64) {
	switch width := TextWidth(text); anchor {
	case "end":
		d.from = min(d.from, x-width)
	case "start":
		d.to = max(d.to, x+width)
	}
	d.add("text", title, text, "class", class, "x", x, "y", y, "text-anchor", anchor)
}

// XTicks draws the labels of a horizontal axis below foot, and a line up to top for each.
func (d *Drawing) XTicks(ticks []Tick, top, foot float64) {
	d.Group("tick", "", func() {
		for _, t := range ticks {
			d.Line("", "", t.At, top, t.At, foot)
			d.Text("", "", t.Label, "middle", t.At, foot+16)
		}
	})
}

// TextWidth returns the approximate width of a text in a drawing's font.
func TextWidth(text string) float64 {
	const character = 7.2
	return character * float64(len([]rune(text)))
}

// HTML returns the drawing with its legend.
func (d *Drawing) HTML() template.HTML {
	var b strings.Builder
	for i, key := range d.Legend {
		if i == 0 {
			b.WriteString(`<div class="legend">`)
		}
		fmt.Fprintf(&b, `<span><svg viewBox="0 0 12 12" aria-hidden="true"><circle cx="6" cy="6" r="5" class="%s"/></svg>%s</span>`,
			key.Class, template.HTMLEscapeString(key.Text))
		if i == len(d.Legend)-1 {
			b.WriteString("</div>\n")
		}
	}
	from, to := math.Floor(d.from), math.Ceil(max(d.to, d.Width))
	fmt.Fprintf(&b, `<svg class="%s" viewBox="%g 0 %g %g" role="img" aria-label="%s">`, d.Class, from, to-from, d.Height,
		template.HTMLEscapeString(d.Alt))
	b.WriteString(d.body.String() + "\n</svg>\n")
	return template.HTML(b.String())
}

//go:embed style.css
var style string

// Framed returns a self-contained HTML page around a body. styles are added to the style sheet.
func Framed(title, styles, body string) string {
	return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>` + template.HTMLEscapeString(title) + `</title>
<style>
` + style + styles + `</style>
</head>
<body>
<main>
` + body + `</main>
</body>
</html>
`
}
