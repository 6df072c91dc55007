//go:build !race

package laws

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// declaredTests returns the names of all tests, fuzz targets and benchmarks.
func declaredTests(all map[string]*ast.File) map[string]bool {
	declared := make(map[string]bool)
	for path, f := range all {
		if !isTest(path) {
			continue
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok {
				declared[d.Name.Name] = true
			}
		}
	}
	return declared
}

// Tests that comments name exist: readers rely on a comment that says where something is tested.
func TestNamedTestsExist(t *testing.T) {
	_, all := files(t)
	declared := declaredTests(all)
	for path, f := range all {
		for _, group := range f.Comments {
			for _, test := range testkit.NamesOfTests(group.Text()) {
				if !declared[test] && !strings.HasPrefix(path, "contenders/") {
					t.Errorf("%s: a comment names %s, which does not exist", path, test)
				}
			}
		}
	}
}

// A comment of a function or a type starts with its name, as godoc shows it. Comments of tests say
// what holds.
func TestDocCommentsStartWithTheName(t *testing.T) {
	fset, all := files(t)
	word := regexp.MustCompile(`^(?:An? |The )?(\w*)`)
	check := func(name string, doc *ast.CommentGroup) {
		if text := doc.Text(); text != "" && word.FindStringSubmatch(text)[1] != name {
			t.Errorf("%s: want a comment that starts with %s, got %.40q", fset.Position(doc.Pos()), name, text)
		}
	}
	for _, f := range all {
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if !testkit.IsTestFunction(d.Name.Name) {
					check(d.Name.Name, d.Doc)
				}
			case *ast.GenDecl:
				if len(d.Specs) != 1 {
					continue
				}
				if s, ok := d.Specs[0].(*ast.TypeSpec); ok {
					check(s.Name.Name, d.Doc)
				}
			}
		}
	}
}

// A comment of a field, constant or variable that starts with an identifier starts with its name,
// or with that of another one of its group.
func TestFieldCommentsStartWithTheName(t *testing.T) {
	fset, all := files(t)
	word := regexp.MustCompile(`^(\w*[a-z][A-Z]\w*) (?:is|are|has|limits|defines|lists|contains|returns|reports|makes) `)
	check := func(group map[string]bool, doc *ast.CommentGroup) {
		if found := word.FindStringSubmatch(doc.Text()); found != nil && !group[found[1]] {
			t.Errorf("%s: want a comment that starts with the name, got %s", fset.Position(doc.Pos()), found[1])
		}
	}
	for _, f := range all {
		ast.Inspect(f, func(n ast.Node) bool {
			group, docs := make(map[string]bool), []*ast.CommentGroup{}
			add := func(names []*ast.Ident, doc *ast.CommentGroup) {
				for _, name := range names {
					group[name.Name] = true
				}
				docs = append(docs, doc)
			}
			switch n := n.(type) {
			case *ast.StructType:
				for _, field := range n.Fields.List {
					add(field.Names, field.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range n.Specs {
					if s, ok := spec.(*ast.ValueSpec); ok {
						add(s.Names, s.Doc)
					}
				}
			}
			for _, doc := range docs {
				check(group, doc)
			}
			return true
		})
	}
}
