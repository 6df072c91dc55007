// Package template executes templates in the syntax of text/template, which it parses with the
// standard library.
//
// text/template and html/template find methods by names that are known only at run time. A program
// that contains them therefore contains all exported methods of all its types, which are a tenth of
// this one. Here the caller lists the methods that its templates use.
//
// Templates are those of text/template, with these differences:
//   - Methods are those of Options.Methods, and functions with arguments are those of Options.Funcs
//     and the ones of text/template, except call, html, js, slice and urlquery.
//   - A number is converted to the type of a parameter if its value stays the same.
//   - A missing key of a map is an error.
//   - With Options.HTML, values are escaped for text and for attributes in double quotes, and for
//     nothing else: templates must not put them into scripts, styles, or URLs with a scheme.
package template

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"text/template/parse"
)

// Options are what templates may use.
type Options struct {
	// Funcs are functions with one result, or a second one that is an error.
	Funcs map[string]any
	// Methods are the methods by name: method expressions, such as time.Time.Format.
	Methods map[string][]any
	// HTML escapes values, except those of type HTML.
	HTML bool
}

// HTML is text that is not escaped.
type HTML string

// Source is the text of a template.
type Source struct{ Name, Text string }

// Template is a set of parsed templates. It is safe for concurrent use.
type Template struct {
	main    string // name of the first source
	trees   map[string]*parse.Tree
	funcs   map[string]reflect.Value
	methods map[method]reflect.Value
	isHTML  bool
}

// method is the key of a method: the type of its receiver, and its name.
type method struct {
	of   reflect.Type
	name string
}

// New parses templates. Each one, and those that it defines, may execute all others. Execute
// executes the first one.
func New(o Options, first Source, more ...Source) (*Template, error) {
	t := &Template{
		main: first.Name, trees: make(map[string]*parse.Tree), funcs: make(map[string]reflect.Value),
		methods: make(map[method]reflect.Value), isHTML: o.HTML,
	}
	for name, f := range o.Funcs {
		t.funcs[name] = reflect.ValueOf(f)
	}
	for name, all := range o.Methods {
		for _, m := range all {
			f := reflect.ValueOf(m)
			t.methods[method{f.Type().In(0), name}] = f
		}
	}
	names := make(map[string]any)
	for name := range builtins() {
		names[name] = true
	}
	for _, s := range append([]Source{first}, more...) {
		trees, err := parse.Parse(s.Name, s.Text, "", "", names, o.Funcs)
		if err != nil {
			return nil, err
		}
		for name, tree := range trees {
			if old := t.trees[name]; old == nil || parse.IsEmptyTree(old.Root) {
				t.trees[name] = tree
			} else if !parse.IsEmptyTree(tree.Root) {
				return nil, fmt.Errorf("template: %s: duplicate template %q", s.Name, name)
			}
		}
	}
	return t, nil
}

// Execute writes the text of the first template. If it fails, nothing is written.
func (t *Template) Execute(w io.Writer, data any) error {
	var out bytes.Buffer
	if err := t.execute(&out, t.main, reflect.ValueOf(data), 0); err != nil {
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}

// maxDepth limits templates that execute themselves.
const maxDepth = 1000

func (t *Template) execute(out *bytes.Buffer, name string, data reflect.Value, depth int) error {
	tree := t.trees[name]
	switch {
	case tree == nil:
		return fmt.Errorf("template: no template %q", name)
	case depth > maxDepth:
		return fmt.Errorf("template: %q: executed within itself %d times", name, maxDepth)
	}
	x := &execution{template: t, tree: tree, out: out, depth: depth, vars: []variable{{"$", data}}}
	return x.walk(data, tree.Root)
}
