// Package page holds what all HTML reports share: the style sheet, rendering, chart axes and line
// plots.
package page

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"time"

	"github.com/tarehq/tare/internal/template"
)

//go:embed style.css
var style string

//go:embed plot.html
var plotSource string

// mainFile is the template that is the page.
const mainFile = "page.html"

// Write writes a self-contained HTML page. The template page.html in sources is the page. It may
// use the other templates there, what o has, the function style, which returns the style sheet, the
// template plot, which draws a Plot, and the method Format of times. If rendering fails, nothing is
// written.
func Write(w io.Writer, sources fs.FS, o template.Options, data any) error {
	parsed, err := parse(sources, o)
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

// Check returns the errors with which Write would panic, in all branches: see template.Check. It is
// for tests.
func Check(sources fs.FS, o template.Options, data any) error {
	parsed, err := parse(sources, o)
	if err != nil {
		return err
	}
	return parsed.Check(reflect.TypeOf(data))
}

// pageOptions adds to o what every page may use.
func pageOptions(o template.Options) template.Options {
	o.HTML, o.Funcs, o.Methods = true, maps.Clone(o.Funcs), maps.Clone(o.Methods)
	if o.Funcs == nil {
		o.Funcs = make(map[string]any)
	}
	if o.Methods == nil {
		o.Methods = make(map[string][]any)
	}
	o.Funcs["style"] = func() template.HTML { return template.HTML(style) }
	o.Methods["Format"] = append(o.Methods["Format"], time.Time.Format)
	return o
}

// parse parses the templates of a page.
func parse(sources fs.FS, o template.Options) (*template.Template, error) {
	names, err := fs.Glob(sources, "*.html")
	if err != nil {
		return nil, err
	}
	first, more := template.Source{}, []template.Source{{Name: "plot.html", Text: plotSource}}
	for _, name := range names {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			return nil, err
		}
		source := template.Source{Name: name, Text: string(text)}
		if name == mainFile {
			first = source
		} else {
			more = append(more, source)
		}
	}
	return template.New(pageOptions(o), first, more...)
}
