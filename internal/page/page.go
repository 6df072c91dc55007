// Package page holds what all HTML reports share: the frame, the style sheet, drawings, chart axes
// and line plots.
package page

import (
	_ "embed"
	"html/template"
)

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
