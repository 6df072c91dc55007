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

// Write writes a self-contained HTML page. The template page.html in sources is the page. It may
// use the other templates there and funcs, the function style, which returns the style sheet, and
// the template plot, which draws a Plot. If rendering fails, nothing is written.
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
