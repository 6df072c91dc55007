//go:build !race

package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The laws protect what a compiler and a linter do not see: which room may import which, that
// documents are true, and that packages have no state. Style is the linters' (.golangci.yml, .vale).

// root is the project's root, which each test makes its working folder. A change of folder in
// TestMain would escape the test cache, which then would not notice that documents changed.
const root = "../.."

// walk calls read for each file of the project with an extension, including those of the nested
// module. The hook of internal/others becomes a part of the standard library, and needs package
// state and init.
func walk(t *testing.T, extension string, read func(path string)) {
	t.Helper()
	testkit.Must(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "results" ||
			d.Name() == "hook"):
			return filepath.SkipDir
		case filepath.Ext(path) == extension:
			read(filepath.ToSlash(path))
		}
		return nil
	}))
}

// files parses all Go files of the project.
func files(t *testing.T) map[string]*ast.File {
	t.Helper()
	parsed := make(map[string]*ast.File)
	walk(t, ".go", func(path string) {
		const mode = parser.ParseComments | parser.SkipObjectResolution
		parsed[path] = testkit.Value(parser.ParseFile(token.NewFileSet(), path, nil, mode))(t)
	})
	return parsed
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

// mayBeVar lists package variables that cannot be constants in Go and never change, with the
// reason.
var mayBeVar = map[string]string{
	"internal/wire/http1.classes":       "a table, filled once and only read",
	"internal/wire/http1.nameTable":     "a table, filled once and only read",
	"internal/wire/http1.names":         "a table of constants",
	"internal/wire/http2.codeLengths":   "a table of constants",
	"internal/wire/http2.codeNames":     "a table of constants",
	"internal/wire/http2.frameRules":    "a table of constants",
	"internal/wire/http2.huffmanCode":   "a table, filled once and only read",
	"internal/wire/http2.staticIndexes": "a table, filled once and only read",
	"internal/wire/http2.staticNames":   "a table, filled once and only read",
	"internal/wire/http2.staticTable":   "a table of constants",
	"internal/engine/h1.keepAlive":      "a header value, only read",
	"internal/cli.release":              "set by the linker",
	"front/internal/files.reserved":     "a table of constants",
}

// Package variables are errors, embedded files and tables. Others would be state that all users of
// a package share.
func TestNoMutablePackageState(t *testing.T) {
	t.Chdir(root)
	used := make(map[string]bool)
	for path, f := range files(t) {
		if isTest(path) || strings.HasPrefix(path, "internal/testkit/") {
			continue
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: has an init function", path)
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR || isEmbedded(d) {
					continue
				}
				for _, spec := range d.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						key := filepath.ToSlash(filepath.Dir(path)) + "." + name.Name
						used[key] = true
						if name.Name != "_" && mayBeVar[key] == "" && !isErrorValue(spec.(*ast.ValueSpec)) {
							t.Errorf("%s: variable %s: state belongs in a value with an owner", path, name.Name)
						}
					}
				}
			}
		}
	}
	for key := range mayBeVar {
		if !used[key] {
			t.Errorf("the exception for %s is not needed", key)
		}
	}
}

// isErrorValue reports whether a variable is errors.New("..."), or an error of another package.
func isErrorValue(s *ast.ValueSpec) bool {
	if len(s.Values) != 1 {
		return false
	}
	switch v := s.Values[0].(type) {
	case *ast.CallExpr:
		return types.ExprString(v.Fun) == "errors.New"
	case *ast.SelectorExpr:
		return strings.HasPrefix(v.Sel.Name, "Err")
	}
	return false
}

// isEmbedded reports whether a variable is an embedded file.
func isEmbedded(d *ast.GenDecl) bool {
	return d.Doc != nil && slices.ContainsFunc(d.Doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}
