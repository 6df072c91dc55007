package template_test

import (
	"bytes"
	"errors"
	"fmt"
	html "html/template"
	"math"
	"reflect"
	"strings"
	"testing"
	text "text/template"
	"time"

	"github.com/tarehq/tare/internal/template"
)

// base is embedded in data.
type base struct{ Inner string }

func (base) Promoted(n int) string { return fmt.Sprint("promoted ", n) }

// Base is an embedded type with an exported name.
type Base struct{ base }

type data struct {
	*Base
	Text, Empty string
	N           int
	U           uint8
	F           float64
	Yes, No     bool
	List        []string
	Map         map[string]int
	Numbers     map[int]string
	Any         any
	Nil         *data
	Next        *data
	When        time.Time
	Err         error
	Lists       [][]int
	Structs     []item
	Values      map[string]item
	Pointers    []*item
	Array       [2]int
	NilMap      map[string]int
	NaN, Minus0 float64
}

// item has methods of a pointer and of a value, and prints itself.
type item struct {
	Name string
	Deep *item
}

// String implements fmt.Stringer.
func (i *item) String() string { return "item " + i.Name }

// Sum adds numbers.
func (d *data) Sum(all ...int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return sum + d.N
}

// Fail fails if n is not 0.
func (d *data) Fail(n int) (string, error) {
	if n != 0 {
		return "", errors.New("it fails")
	}
	return "fine", nil
}

// Shout is called with a value.
func (d data) Shout() string { return strings.ToUpper(d.Text) }

func newData() *data {
	return &data{
		Base: &Base{base{"inner"}}, Text: `a<b>"c'+&d` + "\x00", N: 3, U: 200, F: 1.5, Yes: true,
		List: []string{"x", "<y>", ""}, Map: map[string]int{"b": 2, "a": 1},
		Numbers: map[int]string{10: "ten", 9: "nine"},
		Any:     map[string]any{"k": []int{7, 8}}, Next: &data{Text: "next", Base: &Base{}},
		When: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Err: errors.New("<error>"), Lists: [][]int{{1, 2}, {}, {3}},
		Structs:  []item{{Name: "<one>"}, {Name: "two", Deep: &item{Name: "deep"}}},
		Values:   map[string]item{"k": {Name: "value"}},
		Pointers: []*item{{Name: "p"}, nil}, Array: [2]int{5, 6},
		NaN: math.NaN(), Minus0: math.Copysign(0, -1),
	}
}

func funcs() map[string]any {
	return map[string]any{
		"twice": func(n float64) float64 { return 2 * n }, "join": strings.Join, "upper": strings.ToUpper,
		"fails":  func(bool) (int, error) { return 0, errors.New("function fails") },
		"twice2": func(n int) int { return 2 * n },
		"length": func(n int64) string { return strings.Repeat("#", int(n)) },
		"isNil":  func(d *data) bool { return d == nil }, "value": func(d data) string { return d.Text },
		"any": func(v any) string { return fmt.Sprintf("%T", v) },
	}
}

func options(isHTML bool) template.Options {
	return template.Options{HTML: isHTML, Funcs: funcs(), Methods: map[string][]any{
		"Sum": {(*data).Sum}, "Fail": {(*data).Fail}, "Shout": {(*data).Shout}, "Promoted": {Base.Promoted},
		"Format": {time.Time.Format}, "UTC": {time.Time.UTC},
	}}
}

// sources are templates that succeed or fail like those of the standard library.
var sources = []string{
	`plain {{/* a comment */}} text`, ` {{- .Text -}} `, `{{.N}} {{.U}} {{.F}} {{.Yes}} {{.List}} {{.Map}}`,
	`{{.Inner}} {{.Next.Text}} {{.Next.Next}} {{.Nil}}`, `{{.When.UTC.Format "15:04"}} {{.When}} {{.Err}}`,
	`{{if .Yes}}a{{else}}b{{end}}{{if .No}}a{{else if .N}}c{{end}}{{if .Empty}}{{end}}{{if not .List}}x{{end}}`,
	`{{with .Next}}{{.Text}}{{$.Text}}{{end}}{{with .Nil}}x{{else}}none{{end}}{{with $x := .N}}{{$x}}{{end}}`,
	`{{with .Nil}}x{{else with .Next}}{{.Text}}{{end}}`,
	`{{range .List}}[{{.}}]{{end}}{{range $i, $x := .List}}{{$i}}={{$x}};{{end}}{{range $x := .List}}{{$x}}{{end}}`,
	`{{range .Map}}{{.}} {{end}}{{range $k, $v := .Map}}{{$k}}:{{$v}} {{end}}`,
	`{{range $k, $_ := .Numbers}}{{$k}} {{end}}`,
	`{{range .Nil.List}}{{end}}`, `{{range .Lists}}{{range .}}{{.}}{{else}}none{{end}},{{end}}`,
	`{{range 3}}{{.}}{{end}}{{range $i := 2}}{{$i}}{{end}}`, `{{range .N}}{{if eq . 1}}{{continue}}{{end}}{{.}}{{end}}`,
	`{{range .List}}{{if eq . "<y>"}}{{break}}{{end}}{{.}}{{end}}`, `{{range .Text}}{{end}}`,
	`{{range .U}}{{if gt . 2}}{{break}}{{end}}{{.}}{{end}}{{range $x := -1}}{{else}}none{{end}}`,
	`{{range $i, $x := .N}}{{end}}`,
	`{{$x := 1}}{{range $x = .Lists}}{{len $x}}{{end}}{{$x}}{{$i := 0}}{{range $i, $x = .List}}{{end}}{{$i}}{{$x}}`,
	`{{$x := 1}}{{range .List}}{{$x = .}}{{end}}{{$x}}`, `{{$x := 1}}{{if .Yes}}{{$x := 2}}{{$x}}{{end}}{{$x}}`,
	`{{.Sum}} {{.Sum 1 2}} {{1 | .Sum 2}} {{.Shout}} {{.Next.Shout}} {{.Promoted 4}} {{(.Sum 1) | twice2}}`,
	`{{.Fail 0}}`, `{{.Fail 1}}`, `{{.Fail "x"}}`, `{{.Fail}}`, `{{fails .Yes}}`, `{{.Missing}}`, `{{.Nil.Text}}`,
	`{{.Text.More}}`, `{{.N 1}}`, `{{nil}}`, `{{join .List ", " | upper | printf "%q-%d" }}`,
	`{{twice 2}} {{twice 1.5}} {{twice .F}} {{length 3}}`, `{{length 1.5}}`,
	`{{isNil nil}} {{isNil .Nil}} {{value .Next}}`,
	`{{any 1}} {{any 1.0}} {{any 'a'}} {{any 1e3}} {{any "x"}} {{any true}} {{any .Any}} {{any nil}}`,
	`{{len .List}} {{len .Map}} {{len "abc"}} {{len .N}}`, `{{index .List 1}} {{index .Map "a"}} {{index .Map "no"}}`,
	`{{index .List 3}}`, `{{index .Numbers 9}} {{index .Any "k" 1}} {{index .Lists 0 1}}`, `{{index .N 1}}`,
	`{{eq .N 3}} {{eq .Text "a" "b"}} {{eq .U 200}} {{ne .N 3}} {{lt .N 4}} {{le 3 .N}} {{gt .U 100}} {{ge .F 1.5}}`,
	`{{eq .Nil nil}} {{ne .Nil nil}} {{eq nil .Next}} {{eq nil nil}} {{eq 1 nil}} {{eq .Next .Next}} {{ne .Next .Nil}}`,
	`{{eq .NaN .NaN}} {{ne .NaN .NaN}} {{lt .NaN 1.0}} {{le .NaN .NaN}} {{gt .F .NaN}}`,
	`{{if .NaN}}a{{end}}{{if .Minus0}}b{{end}}`,
	`{{eq .When .When}} {{eq .Array .Array}} {{eq .NilMap nil}}`, `{{eq .List .List}}`, `{{lt nil 1}}`, `{{lt .Yes .No}}`,
	`{{eq .Nil 1}}`, `{{ne .Nil .NilMap}}`, `{{eq .Err .Err}} {{eq .Any .NilMap}}`, `{{eq 1i 1i}}`,
	`{{ge .NaN 1.0}} [{{.Next.Err}}] [{{.Next.Any}}] [{{.Nil}}]`, `{{.Nil.Sum 1}}`, `{{.Nil.Shout}}`,
	`{{lt .U 300}} {{gt -1 .U}} {{eq .Text .N}}`, `{{eq .Yes true}} {{eq .No .Yes}}`,
	`{{and .Yes .N}} {{or .Empty .Text}} {{or .No .Empty}} {{and .No (.Fail 1)}} {{or .Yes (.Fail 1)}} {{not 0}}`,
	`{{and .Yes (.Fail 1)}}`, `{{print 1 "a" 2 3 .N}}|{{println "x"}}|{{printf "%05d %v %s" .N .Any .Text}}`, `{{printf}}`,
	`{{define "t"}}[{{.}}]{{end}}{{template "t" .N}}{{template "t" .Text}}{{template "t"}}`, `{{template "none" .}}`,
	`{{define "t"}}{{template "t" .}}{{end}}{{template "t" .}}`, `{{block "b" .List}}{{len .}}{{end}}`,
	`{{(index .Lists 0)}} {{(.Next).Text}} {{$.Next.Text}} {{$x := .Next}}{{$x.Text}} {{$x.Sum 1}}`, `{{.Any.k}}`,
	`<a title="{{.Text}}" class="x {{.N}}">{{.Text}}</a><b>{{join .List "&"}}</b>`, `{{.N}}{{"lit<"}}{{1}}{{true}}`,
}

// Templates have the result that the standard library's have, and fail if those fail.
func TestTemplatesAreThoseOfTheStandardLibrary(t *testing.T) {
	for _, source := range sources {
		var want, wantHTML bytes.Buffer
		theirs := text.Must(text.New("x").Funcs(funcs()).Option("missingkey=error").Parse(source))
		theirsHTML := html.Must(html.New("x").Funcs(funcs()).Option("missingkey=error").Parse(source))
		err, errHTML := theirs.Execute(&want, newData()), theirsHTML.Execute(&wantHTML, newData())
		for _, c := range []struct {
			isHTML bool
			want   string
			err    error
		}{{false, want.String(), err}, {true, wantHTML.String(), errHTML}} {
			if c.err != nil {
				c.want = ""
			}
			parsed, err := template.New(options(c.isHTML), template.Source{Name: "x", Text: source})
			var got bytes.Buffer
			if err == nil {
				err = parsed.Execute(&got, newData())
			}
			if got.String() != c.want || (err == nil) != (c.err == nil) {
				t.Errorf("%s (HTML %t): got %q, %v\nwant %q, %v", source, c.isHTML, got.String(), err, c.want, c.err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "template: ") {
				t.Errorf("%s: the error %q does not begin with template", source, err)
			}
		}
	}
}

// An error has the name, line and column of its place.
func TestErrorsHaveTheirPlaces(t *testing.T) {
	parsed, err := template.New(options(false), template.Source{Name: "nginx.conf",
		Text: "a\nb {{if .Yes}}\n{{.Missing}}{{end}}"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "template: nginx.conf:3:2: at <.Missing>: can't evaluate field Missing in type template_test.data"
	if err := parsed.Execute(new(bytes.Buffer), newData()); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	for _, source := range []string{"{{", "{{end}}", "{{nofunc 1}}", "{{if}}{{end}}", "{{$x}}", "{{call .}}"} {
		if _, err := template.New(options(false), template.Source{Name: "x", Text: source}); err == nil {
			t.Errorf("%s is accepted", source)
		}
	}
	if _, err := template.New(options(false), template.Source{Name: "x", Text: `{{define "t"}}a{{end}}`},
		template.Source{Name: "y", Text: `{{define "t"}}b{{end}}`}); err == nil {
		t.Error("a duplicate template is accepted")
	}
}

// Text of each character is escaped as html/template does it, in text and in an attribute.
func TestEveryCharacterIsEscaped(t *testing.T) {
	const source = `<p title="{{.}}">{{.}}</p>`
	theirs := html.Must(html.New("x").Parse(source))
	ours, err := template.New(template.Options{HTML: true}, template.Source{Name: "x", Text: source})
	if err != nil {
		t.Fatal(err)
	}
	for c := range math.MaxUint8 + 1 {
		for _, value := range []string{string([]byte{byte(c)}), string(rune(c))} {
			var want, got bytes.Buffer
			if err := errors.Join(theirs.Execute(&want, value), ours.Execute(&got, value)); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() {
				t.Errorf("%q: got %q, want %q", value, got.String(), want.String())
			}
		}
	}
}

// Check finds in all branches what Execute finds in those that it reaches.
func TestCheckFindsWhatIsMissing(t *testing.T) {
	for source, want := range map[string]string{
		`{{.Sum 1}} {{.Next.Fail 0}} {{.Text}} {{.Inner}} {{.Promoted 1}} {{.When.UTC.Format ""}} {{.Any.k.x}}`: "",
		`{{range $i, $x := .Structs}}{{$x.Name}}{{$x.Deep.Deep.Name}}{{end}}{{index .Values "k" | print}}`:      "",
		`{{range .Values}}{{.Name}}{{end}}{{with index .Pointers 1}}{{.Name}}{{end}}{{.Map.none}}`:              "",
		`{{$x := .N}}{{if .No}}{{$x = .Next}}{{else}}{{$x.Text}}{{end}}{{range 3}}{{.}}{{end}}`:                 "",
		`{{$x := .Next}}{{range $x = .List}}{{$x.Whatever}}{{end}}`:                                             "",
		`{{if .No}}{{.Missing}}{{end}}`:                                          "data has no field Missing",
		`{{if .Yes}}{{else if .No}}{{.Next.When.Missing}}{{end}}`:                "Time has no field Missing",
		`{{with .Nil}}{{.When.String}}{{end}}`:                                   "method String of time.Time",
		`{{range .Structs}}{{else}}{{range $.Structs}}{{.String}}{{end}}{{end}}`: "method String of template_test.item is not in",
		`{{range .Values}}{{.String}}{{end}}`:                                    "item has no field String",
		`{{range .NilMap}}{{.Name}}{{end}}`:                                      "int has no field Name",
		`{{define "t"}}{{.Name}}{{end}}{{if .No}}{{template "t" .}}{{end}}`:      "data has no field Name",
		`{{if .No}}{{template "none"}}{{end}}`:                                   "no template",
		`{{if .No}}{{range .Text}}{{end}}{{end}}`:                                "cannot iterate over a string",
		`{{$x := .Next}}{{if .No}}{{printf "" (len $x.Lost)}}{{end}}`:            "data has no field Lost",
	} {
		parsed, err := template.New(options(true), template.Source{Name: "x", Text: source})
		if err != nil {
			t.Fatal(err)
		}
		err = parsed.Check(reflect.TypeFor[*data]())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", source, err, want)
		}
	}
}
