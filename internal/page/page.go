// Package page holds what all HTML reports share: the style sheet, rendering, drawings, chart axes
// and line plots.
package page

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
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

const mainFile = "page.html"

// Write writes a self-contained HTML page. The template page.html in sources is the page. It may
// use the other templates there, funcs, and the function style, which returns the style sheet. If
// rendering fails, nothing is written.
func Write(w io.Writer, sources fs.FS, funcs template.FuncMap, data any) error {
	styled := template.FuncMap{"style": func() template.CSS { return template.CSS(style) }}
	t := template.New(mainFile).Option("missingkey=error").Funcs(funcs).Funcs(styled)
	if _, err := t.ParseFS(sources, "*.html"); err != nil {
		panic(fmt.Sprintf("page: BUG: %v", err))
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}
