//go:build !race

package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The laws protect what a compiler and a linter do not see: which room may import which, that
// documents are true, and that packages have no state. Style is the linters' (.golangci.yml, .vale).

// root is the project's root, which each test makes its working folder. A change of folder in
// TestMain would escape the test cache, which then would not notice that documents changed.
const root = "../.."

// files parses all Go files of the project, including those of the nested module. The hook of
// internal/others becomes a part of the standard library, and needs package state and init.
func files(t *testing.T) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	set := token.NewFileSet()
	parsed := make(map[string]*ast.File)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "results" ||
			d.Name() == "hook") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".go" {
			f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			parsed[filepath.ToSlash(path)] = f
		}
		return nil
	})
	testkit.Must(t, err)
	return set, parsed
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
	"fcgi.ErrRequestAborted":            "an error of the engine",
	"fcgi.ErrConnClosed":                "an error of the engine",
	"fcgi.ErrOverloaded":                "an error of the client",
	"fcgi.ErrCannotMultiplex":           "an error of the client",
	"fcgi.ErrUnknownRole":               "an error of the client",
	"internal/cli.release":              "set by the linker",
	"internal/dist.packaged":            "embedded files",
	"internal/page.style":               "an embedded file",
	"experiments.files":                 "embedded files",
	"internal/application.source":       "embedded files",
	"internal/lab/project.contenders":   "an embedded file",
	"front/nginxconf.tableText":         "an embedded file",
	"front/internal/files.reserved":     "a table of constants",
	"internal/lab/proc.callNames":       "an embedded file",
	"internal/lab/contender.etcFiles":   "embedded files",
	"internal/lab.ownNginxConf":         "an embedded file",
	"internal/lab.ownSource":            "an embedded file",
	"internal/lab/report.styles":        "an embedded file",
	"load/report.pageSource":            "an embedded file",
	"load/fleet.manifest":               "an embedded file",
}

// Package variables are errors, embedded files and tables. Others would be state that all users of
// a package share.
func TestNoMutablePackageState(t *testing.T) {
	t.Chdir(root)
	_, all := files(t)
	used := make(map[string]bool)
	for path, f := range all {
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
				if d.Tok != token.VAR {
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

// isErrorValue reports whether a variable is errors.New("...").
func isErrorValue(s *ast.ValueSpec) bool {
	if len(s.Values) != 1 {
		return false
	}
	call, ok := s.Values[0].(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "errors" && sel.Sel.Name == "New"
}
