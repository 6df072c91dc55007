package template_test

import (
	"bytes"
	"fmt"
	html "html/template"
	"math/rand/v2"
	"strings"
	"testing"
	text "text/template"

	"github.com/tarehq/tare/internal/template"
)

// writer writes random templates.
type writer struct {
	*rand.Rand
	vars  []string // in scope
	loops int      // that surround the place
}

func (w *writer) one(of ...string) string { return of[w.IntN(len(of))] }

// path returns a field, method or variable.
func (w *writer) path() string {
	path := w.one("$", ".", ".", "$.Next", ".Next", ".Base", ".Any")
	if len(w.vars) > 0 && w.IntN(3) == 0 {
		path = w.one(w.vars...)
	}
	if w.IntN(6) == 0 {
		return path
	}
	return strings.TrimSuffix(path, ".") + "." + w.one("Text", "Empty", "N", "U", "F", "Yes", "No", "List", "Map",
		"Numbers", "Any", "Nil", "Next", "When", "Err", "Lists", "Inner", "Shout", "Sum", "Base", "k", "Missing",
		"Text", "N", "List", "Lists", "Structs", "Values", "Deep", "Name", "Pointers", "Array", "NilMap",
		"NaN", "Minus0")
}

// operand returns an argument.
func (w *writer) operand(depth int) string {
	switch w.IntN(8) {
	case 0:
		return w.one("0", "1", "-3", "2.5", "1e3", "'a'", "0x1F", "200", "1.0")
	case 1:
		return w.one(`"a"`, `"<b>"`, `""`, "`k`", `"%v %d|"`, `"x"`)
	case 2:
		return w.one("true", "false", "nil")
	case 3, 4:
		if depth > 0 {
			return "(" + w.pipe(depth-1) + ")" + w.one("", "", ".Text", ".N", ".Next.Text")
		}
	}
	return w.path()
}

// command returns a command of a pipeline.
func (w *writer) command(depth int) string {
	name := w.one("and", "or", "not", "len", "index", "print", "println", "printf", "eq", "ne", "lt", "le", "gt", "ge",
		"join", "upper", "any", "isNil", "value", "twice", ".Sum", ".Fail", ".Promoted", "$.Next.Sum", ".When.Format",
		"twice2")
	var args []string
	for range w.IntN(4) {
		args = append(args, w.operand(depth))
	}
	return strings.TrimSpace(name + " " + strings.Join(args, " "))
}

func (w *writer) pipe(depth int) string {
	pipe := w.operand(depth)
	if w.IntN(2) == 0 {
		pipe = w.command(depth)
	}
	for w.IntN(4) == 0 {
		pipe += " | " + w.command(depth)
	}
	return pipe
}

// list returns text and actions. The variables that they declare are out of scope then.
func (w *writer) list(depth int) string {
	var b strings.Builder
	outer := w.vars
	defer func() { w.vars = outer }()
	for range 1 + w.IntN(3) {
		b.WriteString(w.action(depth))
	}
	return b.String()
}

func (w *writer) action(depth int) string {
	if depth <= 0 {
		return "{{" + w.pipe(1) + "}}"
	}
	switch w.IntN(12) {
	case 0, 1:
		return w.one("text ", "<b>bold</b>", " \n ", "{{- /* comment */ -}}")
	case 2, 3:
		declared := ""
		outer := w.vars
		if w.IntN(4) == 0 {
			declared = w.declare() + " := "
		}
		kind := w.one("if", "with")
		head := "{{" + kind + " " + declared + w.pipe(1) + "}}" + w.list(depth-1)
		if w.IntN(4) == 0 {
			head += "{{else " + kind + " " + w.pipe(1) + "}}" + w.list(depth-1)
		}
		if w.IntN(2) == 0 {
			head += "{{else}}" + w.list(depth-1)
		}
		w.vars = outer
		return head + "{{end}}"
	case 4, 5:
		return w.loop(depth)
	case 6:
		name := fmt.Sprintf("$v%d", w.IntN(4))
		source := "{{" + name + " := " + w.pipe(1) + "}}"
		w.vars = append(w.vars[:len(w.vars):len(w.vars)], name)
		return source
	case 7:
		if len(w.vars) > 0 {
			return "{{" + w.one(w.vars...) + " = " + w.pipe(1) + "}}"
		}
	case 8:
		return `{{template "` + w.one("t", "u") + `" ` + w.pipe(1) + `}}`
	case 9:
		if w.loops > 0 {
			return "{{if " + w.pipe(1) + "}}{{" + w.one("break", "continue") + "}}{{end}}"
		}
	case 10:
		return `<p title="{{` + w.pipe(1) + `}}">`
	}
	return "{{" + w.one("", "- ") + w.pipe(2) + w.one("", " -") + "}}"
}

func (w *writer) declare() string {
	name := fmt.Sprintf("$w%d", w.IntN(4))
	w.vars = append(w.vars[:len(w.vars):len(w.vars)], name)
	return name
}

func (w *writer) loop(depth int) string {
	outer, declared := w.vars, ""
	over := w.pipe(0)
	if w.IntN(3) > 0 {
		over = w.one(".List", "$.Lists", ".Map", "$.Numbers", "3", ".Any", "$.Structs", "$.Values", "$.Pointers",
			".Array", ".NilMap")
	}
	switch w.IntN(3) {
	case 0:
		declared = w.declare() + " := "
	case 1:
		declared = w.declare() + ", "
		declared += w.declare() + " := "
	}
	w.loops++
	source := "{{range " + declared + over + "}}" + w.list(depth-1)
	w.loops--
	if w.IntN(3) == 0 {
		w.vars = outer
		source += "{{else}}" + w.list(depth-1)
	}
	w.vars = outer
	return source + "{{end}}"
}

// Random templates have the text that the standard library's have, if those succeed.
func FuzzTemplates(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	values := newData()
	f.Fuzz(func(t *testing.T, seed uint64) {
		w := &writer{Rand: rand.New(rand.NewPCG(seed, 0))}
		for range 10 {
			source := w.list(3)
			w.vars, w.loops = nil, 0
			source += `{{define "t"}}[{{.}}]{{end}}{{define "u"}}` + w.list(1) + `{{end}}`
			w.vars = nil
			for _, isHTML := range []bool{false, true} {
				want, err := standard(source, isHTML, values)
				if err != nil {
					continue
				}
				parsed, err := template.New(options(isHTML), template.Source{Name: "x", Text: source})
				var got bytes.Buffer
				if err == nil {
					err = parsed.Execute(&got, values)
				}
				if err != nil || got.String() != want {
					t.Errorf("%s\nHTML %t: got %q, %v\nwant %q", source, isHTML, got.String(), err, want)
				}
			}
		}
	})
}

// standard executes a template with the standard library.
func standard(source string, isHTML bool, values *data) (string, error) {
	var b bytes.Buffer
	if isHTML {
		parsed, err := html.New("x").Funcs(funcs()).Option("missingkey=error").Parse(source)
		if err != nil {
			return "", err
		}
		err = parsed.Execute(&b, values)
		return b.String(), err
	}
	parsed, err := text.New("x").Funcs(funcs()).Option("missingkey=error").Parse(source)
	if err != nil {
		return "", err
	}
	err = parsed.Execute(&b, values)
	return b.String(), err
}
