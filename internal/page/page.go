// Package page is what the pages that are written have in common: how they look, how they are
// made, and the axes of their charts.
package page

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed style.css
var style string

// Write writes a page of data as one HTML file that needs nothing else. Its template can call
// style, the style sheet of all pages, and funcs. Nothing is written of a page that is not whole.
func Write(w io.Writer, source string, funcs template.FuncMap, data any) error {
	common := template.FuncMap{"style": func() template.CSS { return template.CSS(style) }}
	parsed, err := template.New("page").Funcs(common).Funcs(funcs).Parse(source)
	if err != nil {
		panic(fmt.Sprintf("page: BUG: %v", err))
	}
	var b bytes.Buffer
	if err := parsed.Execute(&b, data); err != nil {
		panic(fmt.Sprintf("page: BUG: %v", err))
	}
	_, err = w.Write(b.Bytes())
	return err
}
