//go:build !race

package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The law about code: package comments, package variables, lengths, documentation, panics. The law
// about imports is in imports_test.go, about documents in documents_test.go, about words in
// names_test.go and words_test.go, about widths in width_test.go.

// TestMain makes the project's root the working folder.
func TestMain(m *testing.M) {
	if err := os.Chdir(filepath.Join("..", "..")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

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
	if err != nil {
		t.Fatal(err)
	}
	return set, parsed
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

func TestEachPackageHasOneComment(t *testing.T) {
	_, all := files(t)
	comments := make(map[string]int)
	for path, f := range all {
		if isTest(path) {
			continue
		}
		n := 0
		if f.Doc != nil {
			n = 1
		}
		comments[filepath.Dir(path)] += n
	}
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("%s has %d package comments, want one", dir, n)
		}
	}
}

// mayBeVar lists package variables that cannot be constants in Go and never change, with the
// reason.
var mayBeVar = map[string]string{
	"internal/wire/http1.classes":        "a table, filled once and only read",
	"internal/wire/http1.nameTable":      "a table, filled once and only read",
	"internal/wire/http1.names":          "a table of constants",
	"internal/wire/http2.codeLengths":    "a table of constants",
	"internal/wire/http2.codeNames":      "a table of constants",
	"internal/wire/http2.frameRules":     "a table of constants",
	"internal/wire/http2.huffmanCode":    "a table, filled once and only read",
	"internal/wire/http2.nameBytes":      "a table, filled once and only read",
	"internal/wire/http2.staticIndexes":  "a table, filled once and only read",
	"internal/wire/http2.staticNames":    "a table, filled once and only read",
	"internal/wire/http2.staticTable":    "a table of constants",
	"internal/engine/h1.keepAlive":       "a header value, only read",
	"fcgi.ErrRequestAborted":             "an error of the engine",
	"fcgi.ErrConnClosed":                 "an error of the engine",
	"fcgi.ErrOverloaded":                 "an error of the client",
	"fcgi.ErrCannotMultiplex":            "an error of the client",
	"fcgi.ErrUnknownRole":                "an error of the client",
	"internal/page.plotSource":           "an embedded file",
	"internal/cli.seriesSource":          "an embedded file",
	"internal/cli.release":               "set by the linker",
	"internal/dist.packaged":             "embedded files",
	"internal/page.style":                "an embedded file",
	"front/internal/files.listingSource": "an embedded file",
	"experiments.files":                  "embedded files",
	"internal/application.source":        "embedded files",
	"internal/lab/project.contenders":    "an embedded file",
	"front/nginxconf.tableText":          "an embedded file",
	"front/internal/files.reserved":      "a table of constants",
	"internal/lab/proc.callNames":        "an embedded file",
	"internal/lab/contender.etcFiles":    "embedded files",
	"internal/lab.ownNginxConf":          "an embedded file",
	"internal/lab.ownSource":             "an embedded file",
	"internal/lab/report.pageSource":     "an embedded file",
	"load/report.pageSource":             "an embedded file",
}

// Package variables are errors, embedded files and tables. Others would be state that all users of
// a package share.
func TestNoMutablePackageState(t *testing.T) {
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

const (
	maxFileLines = 500
	maxFuncLines = 70
	maxMainLines = 30
)

// mayBeLong lists files and functions beyond the limits, with their own limit and the reason.
// Limits must not grow.
var mayBeLong = map[string]struct {
	lines  int
	reason string
}{}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	set, all := files(t)
	check := func(what string, lines, limit int) {
		if x, ok := mayBeLong[what]; ok {
			if lines <= limit {
				t.Errorf("%s no longer needs its exception", what)
			}
			limit = x.lines
		}
		if lines > limit {
			t.Errorf("%s has %d lines, want at most %d", what, lines, limit)
		}
	}
	for path, f := range all {
		limit := maxFileLines
		if path == "cmd/tare/main.go" {
			limit = maxMainLines // main is one call
		}
		check(path, set.Position(f.FileEnd).Line, limit)
		if isTest(path) {
			continue // a table of cases may be long
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok {
				check(path+":"+d.Name.Name, set.Position(d.End()).Line-set.Position(d.Pos()).Line+1, maxFuncLines)
			}
		}
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	_, all := files(t)
	for path, f := range all {
		if isTest(path) || strings.HasPrefix(path, "contenders/") {
			continue
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || receiverIsExported(d)) &&
					!implementsObvious(d) {
					t.Errorf("%s: %s has no comment", path, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if name := undocumented(spec); name != "" && d.Doc == nil {
						t.Errorf("%s: %s has no comment", path, name)
					}
				}
			}
		}
	}
}

// undocumented returns the first exported name of a type, constant or variable that
// has no comment of its own.
func undocumented(spec ast.Spec) string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil {
			return s.Name.Name
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Doc == nil && s.Comment == nil {
				return name.Name
			}
		}
	}
	return ""
}

func receiverIsExported(d *ast.FuncDecl) bool {
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

// implementsObvious reports whether a method belongs to a well-known interface.
func implementsObvious(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap", "Read", "Write", "LocalAddr",
		"RemoteAddr", "SetDeadline", "SetReadDeadline", "SetWriteDeadline"}, d.Name.Name)
}

// The texts of panics report a bug of this project, or repeat a panic of net/http for a bug of the
// caller. A panic that a goroutine has recovered for another one is passed on as it is.
func TestPanicsNameTheBug(t *testing.T) {
	set, all := files(t)
	for path, f := range all {
		if isTest(path) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if id, ok := call.Fun.(*ast.Ident); !ok || id.Name != "panic" || len(call.Args) != 1 {
				return true
			}
			if sel, ok := call.Args[0].(*ast.SelectorExpr); ok && sel.Sel.Name == "ErrAbortHandler" {
				return true // net/http's way to abort a response
			}
			if id, ok := call.Args[0].(*ast.Ident); ok && id.Name == "recovered" {
				return true
			}
			prefix := f.Name.Name + ": BUG: "
			if text := firstString(call.Args[0]); !strings.HasPrefix(text, prefix) &&
				(f.Name.Name != "engine" && f.Name.Name != "exchange" || !likeNetHTTP(text)) {
				t.Errorf("%s: panic(%q): want it to begin with %q", set.Position(call.Pos()), text, prefix)
			}
			return true
		})
	}
}

func firstString(e ast.Expr) (text string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && text == "" {
			text = strings.Trim(lit.Value, "\"`")
		}
		return text == ""
	})
	return text
}

func likeNetHTTP(text string) bool {
	return slices.Contains([]string{
		"invalid WriteHeader code %v", "BaseContext returned a nil context", "ConnContext returned nil",
		"http: Hijack called after ServeHTTP finished", "net/http: CloseNotify called after ServeHTTP finished",
	}, text)
}
