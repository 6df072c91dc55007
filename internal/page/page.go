// Package page holds what all HTML reports share: the style sheet, rendering, chart axes and line
// plots.
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

//go:embed plot.html
var plotSource string

const mainFile = "page.html"

// Write writes a self-contained HTML page. The template page.html in sources is the page. It may
// use the other templates there, funcs, the function style, which returns the style sheet, and the
// template plot, which draws a Plot. If rendering fails, nothing is written.
func Write(w io.Writer, sources fs.FS, funcs template.FuncMap, data any) error {
	styled := template.FuncMap{"style": func() template.CSS { return template.CSS(style) }}
	t := template.New(mainFile).Option("missingkey=error").Funcs(funcs).Funcs(styled)
	if _, err := t.New("plot.html").Parse(plotSource); err != nil {
		panic(fmt.Sprintf("page: BUG: %v", err))
	}
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
