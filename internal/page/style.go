// Package page is what the pages that are written have in common: how they look, and the
// axes of their charts.
package page

import (
	_ "embed"
	"html/template"
)

//go:embed style.css
var style string

// Style is the style sheet of all pages: light and dark, for screens of any width and for
// paper. A page adds what it alone has.
func Style() template.CSS {
	return template.CSS(style)
}
