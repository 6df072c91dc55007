// Package page is what the pages that are written have in common: how they look, how they are
// made, the axes of their charts, and pictures of lines.
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

// Write writes a page of data as one HTML file that needs nothing else. Of the templates in
// sources page.html is the page, which calls the others. They can call style, the style sheet of
// all pages, the template plot, which draws a Plot, and funcs. Nothing is written of a page that is
// not whole.
func Write(w io.Writer, sources fs.FS, funcs template.FuncMap, data any) error {
	common := template.FuncMap{"style": func() template.CSS { return template.CSS(style) }}
	parsed, err := template.New("plot.html").Funcs(common).Funcs(funcs).Parse(plotSource)
	if err == nil {
		parsed, err = parsed.ParseFS(sources, "*.html")
	}
	if err != nil {
		panic(fmt.Sprintf("page: BUG: %v", err))
	}
	var b bytes.Buffer
	if err := parsed.ExecuteTemplate(&b, "page.html", data); err != nil {
		panic(fmt.Sprintf("page: BUG: %v", err))
	}
	_, err = w.Write(b.Bytes())
	return err
}
