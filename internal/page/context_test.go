package page_test

import (
	"errors"
	html "html/template"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// contexts returns the escapers that html/template adds to the actions of a page: they show where
// these stand. The texts are of the files of a page.
func contexts(t *testing.T, texts []string) (found []string) {
	t.Helper()
	funcs := make(html.FuncMap)
	for _, text := range texts {
		for _, name := range regexp.MustCompile(`[{( ]([a-z]\w+)`).FindAllStringSubmatch(text, -1) {
			funcs[name[1]] = func(...any) any { return nil }
		}
	}
	for _, name := range []string{"and", "or", "not", "len", "index", "print", "printf", "println"} {
		delete(funcs, name)
	}
	all := html.New("page").Funcs(funcs)
	for _, text := range texts {
		if _, err := all.Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, one := range all.Templates() { // the one that is executed, and those that it executes, are escaped
		err := one.Execute(io.Discard, nil)
		if e, ok := errors.AsType[*html.Error](err); ok {
			t.Errorf("%v", e)
		}
	}
	escaped := regexp.MustCompile(`\{\{[^}]*_html_template_[^}]*\}\}`)
	for _, one := range all.Templates() {
		if one.Tree != nil {
			found = append(found, escaped.FindAllString(one.Tree.Root.String(), -1)...)
		}
	}
	return found
}

// Values stand in text and in quoted attributes only: package template escapes for nothing else.
// There are two exceptions: the style sheet, and parts of URLs that cannot be their scheme.
func TestValuesStandInTextAndAttributes(t *testing.T) {
	allowed := regexp.MustCompile(`^\{\{(style \| _html_template_cssvaluefilter` +
		`|\.(ID|Name) \| _html_template_url(filter|normalizer|escaper)( \| _html_template_url(normalizer|escaper))?` +
		`( \| _html_template_attrescaper)?` +
		`|[^|]*(\| [^_|]*)*\| _html_template_(html|attr|rcdata)escaper)\}\}$`)
	for _, dir := range []string{"../lab/report", "../lab/timeline", "../../load/report", "../cli"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.html"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", dir, files, err)
		}
		var texts []string
		for _, name := range append(files, "plot.html") {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(b))
		}
		found := contexts(t, texts)
		if len(found) < 5 {
			t.Errorf("%s: found only %q", dir, found)
		}
		for _, action := range found {
			if !allowed.MatchString(action) {
				t.Errorf("%s: %s stands where its value would not be escaped", dir, action)
			}
		}
	}
	for _, bad := range []string{`<a href="{{.URL}}">`, `<p class={{.Class}}>`, `<script>{{.Text}}</script>`,
		`<p style="{{.Text}}">`, `<p onclick="{{.Text}}">`, `<p {{.Text}}>`} {
		if found := contexts(t, []string{bad}); slices.ContainsFunc(found, allowed.MatchString) || len(found) == 0 {
			t.Errorf("%s is allowed: %q", bad, found)
		}
	}
}
