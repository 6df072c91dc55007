package tare_test

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// This file is the project's law: what may import what, and a few habits that are
// easy to lose. It is data first. Do not change the data to make a test pass unless
// the architecture is what you mean to change; then ARCHITECTURE.md changes, too.

const module = "github.com/tarehq/tare"

// A ban forbids an import, with the reason that the test gives.
type ban struct {
	from   string // a package of ours, or with /... it and those below it
	to     string // likewise, or a package of the standard library
	reason string
}

// bans on our own packages hold through any number of imports in between. Bans on
// others are about direct imports. Imports count on every operating system.
var bans = []ban{
	{"internal/poll", "net/http", "sockets know no protocol"},
	{"internal/poll", "internal/wire/...", "sockets know no protocol"},
	{"internal/poll", "internal/engine", "sockets are below the engine"},

	{"internal/pool", "net/http", "a pool keeps connections, whatever they speak"},
	{"internal/pool", "internal/wire/...", "a pool keeps connections, whatever they speak"},
	{"internal/pool", "internal/engine", "a client does not lean on the server"},
	{"internal/client", "internal/engine", "a client does not lean on the server"},
	{"internal/fcgiclient", "internal/engine", "a client does not lean on the server"},
	{"internal/fcgiclient", "load", "whoever imports the library must not inherit the tools"},
	{"internal/fcgiclient", "lab/...", "whoever imports the library must not inherit the tools"},
	{"internal/client", "load", "whoever imports the library must not inherit the tools"},
	{"internal/client", "lab/...", "whoever imports the library must not inherit the tools"},

	{"fcgi", "load", "whoever imports the library must not inherit the tools"},
	{"fcgi", "lab/...", "whoever imports the library must not inherit the tools"},

	{"internal/engine", "load", "what is measured does not lean on the ruler"},
	{"internal/engine", "lab/...", "what is measured does not lean on the ruler"},
	{".", "load", "whoever imports the library must not inherit the tools"},
	{".", "lab/...", "whoever imports the library must not inherit the tools"},
	{".", "internal/cli", "whoever imports the library must not inherit the tools"},

	{"load", "internal/engine", "the ruler does not lean on what it measures"},
	{"load", ".", "the ruler does not lean on what it measures"},
	{"load", "net/http", "the generator speaks HTTP by its own loop"},
	{"load", "lab/...", "the generator knows nothing of experiments"},
	{"load/hist", "net", "a histogram is numbers"},
	{"load/hist", "internal/...", "a histogram is numbers"},

	{"load/report", "lab/...", "a run of the generator can be reported without the lab"},
	{"load/report", "internal/engine", "the ruler does not lean on what it measures"},
	{"load/report", "os", "a report is written to what it is given"},

	{"front/upstream", "net/http", "which server is asked has nothing to do with what it is asked"},
	{"front/upstream", "internal/...", "which server is asked has nothing to do with how it is asked"},
	{"front/upstream", "front", "it is told what it needs"},
	{"front/files", "internal/...", "the handler works on any http.Server, and asks for what one can do better by interfaces"},
	{"front/files", ".", "the handler works on any http.Server, and asks for what one can do better by interfaces"},
	{"front/files", "load/...", "whoever imports a handler must not inherit the tools"},
	{"front/files", "lab/...", "whoever imports a handler must not inherit the tools"},
	{"front", "internal/engine", "the front works on any http.Server"},
	{"front", ".", "the front works on any http.Server"},
	{"front", "load/...", "whoever imports a handler must not inherit the tools"},
	{"front", "lab/...", "whoever imports a handler must not inherit the tools"},
	{"front/cache", "internal/...", "a cache keeps answers, wherever they come from"},
	{"front/cache", "front", "it is told what it needs"},
	{"front/limit", "net/http", "what counts by key knows no protocol"},
	{"front/limit", "internal/...", "what counts by key knows nothing of what it counts"},
	{"front/limit", "front", "it is told what it needs"},
	{"front/upstream", "net/http", "choosing a server is about none's protocol"},
	{"front/nginxconf", "net/http/httputil", "a configuration is read, not run"},
	{"front/accesslog", "internal/...", "a log works on any http.Server"},
	{"front/spool", "net/http", "lines are lines, whatever they say"},
	{"internal/privilege", "net", "what a process may do has nothing to do with what it serves"},
	{"internal/certs", "net/http", "a certificate is TLS's"},

	{"internal/dialect/...", "internal/engine", "other tools' command lines are about load"},
	{"internal/dialect/...", ".", "other tools' command lines are about load"},
	{"internal/dialect/...", "lab/...", "other tools' command lines are about load"},

	{"lab/...", "internal/engine", "ours is started as a process, like any rival"},
	{"lab/...", ".", "ours is started as a process, like any rival"},
	{"lab/...", "internal/cli", "the lab can be used without the command line"},
	{"lab/stat", "os", "statistics know numbers only"},
	{"lab/stat", "lab/...", "statistics know numbers only"},
	{"lab/proc", "lab/...", "reading /proc is below the rest of the lab"},
	{"lab/kernel", "lab/...", "kernel settings are below the rest of the lab"},
	{"lab/equal", "internal/wire/...", "the proof reads answers with another codec than the generator's"},
	{"lab/explain", "os", "an explanation is made of evidence alone"},
	{"lab/explain", "os/exec", "an explanation is made of evidence alone"},
	{"lab/report", "os/exec", "a report runs nothing"},
	{"lab/report", "lab", "the report is given its input"},
}

// testBans are about the imports of tests. Elsewhere tests may import what they like.
var testBans = []ban{
	{"load", "internal/engine", "a generator tested on our server only would learn its faults"},
	{"load", ".", "a generator tested on our server only would learn its faults"},
	{"internal/engine", "load", "a server tested by our generator only would learn its faults"},
	{"bench", "internal/engine", "ours is started as a process, like any rival"},
	{"bench", ".", "ours is started as a process, like any rival"},
	{"internal/wire/...", "internal/engine", "the codec is tested without its users"},
}

// only lists all that a tree may import, where that is shorter than what it may not.
var only = []struct {
	from    string
	imports []string // paths as they are imported
	ofOurs  bool     // other people's packages are not counted
	reason  string
}{
	{
		"internal/wire/...", []string{"bytes", "encoding/binary", "math", "math/bits", "strconv", module + "/internal/wire/http1"}, false,
		"a codec is bytes in, offsets out: it does not read, wait, log, share or know the time",
	},
	{
		"internal/dialect/...", []string{module + "/load", module + "/load/hist", module + "/internal/dialect", module + "/internal/dialect/getopt"}, true,
		"a dialect is flags in, report out: what runs between is the generator's",
	},
	{
		"load/compare", []string{module + "/load", module + "/load/hist", module + "/load/report", module + "/lab/stat"}, true,
		"a comparison is of results: of the lab it uses the statistics",
	},
	{
		"lab/explain", nil, true,
		"an explanation is made of evidence alone: how it was measured is others' business",
	},
	{
		"internal/inmemory", nil, true,
		"clients in memory do not lean on the servers that they ask",
	},
	{
		"internal/page", nil, true,
		"what pages have in common is below all that write one",
	},
	{
		// The two shared packages hold what all contenders serve, so that it is the same.
		"contenders/...", []string{module, module + "/fcgi", module + "/front", module + "/front/nginxconf", module + "/contenders/application", module + "/contenders/cases", module + "/internal/inmemory"}, true,
		"a contender is a program like a user's: of ours it sees what users see, and the clients that are in memory with it",
	},
}

// onlyBy lists packages that nobody else may import.
var onlyBy = map[string][]string{
	"internal/cli":                 {"cmd/tare"},
	"internal/dialect":             {"internal/cli"},
	"internal/dialect/ab":          {"internal/cli"},
	"internal/dialect/dialecttest": nil, // tests only
	"internal/dialect/siege":       {"internal/cli"},
	"internal/dialect/wrk":         {"internal/cli"},
	"internal/testkit":             {"internal/testkit/programs"}, // tests only
	"internal/testkit/programs":    nil,
	"internal/client":              {".", "front"},
	"internal/engine":              {".", "fcgi"},
	"internal/fcgiclient":          {"fcgi", "front"},
	"internal/pcre":                {"front"},
	"internal/pool":                {"internal/client", "internal/fcgiclient"},
	"internal/roundtrip":           {"internal/client", "internal/fcgiclient", "front"},
	"internal/privilege":           {"internal/cli"},
	"internal/listen":              {"internal/cli"},
	"internal/safefile":            {"internal/anchor", "internal/cli", "internal/listen"},
	"lab":                          {"internal/cli"},
}

// A room is a folder with Go files: what they import, whatever the operating system
// they are for, and what their tests do.
type room struct{ imports, testImports map[string]bool }

// rooms are the folders of the project, those of the nested module included, by path;
// "." is the root.
func rooms(t *testing.T) map[string]room {
	t.Helper()
	_, all := files(t)
	found := make(map[string]room)
	for path, f := range all {
		dir := filepath.ToSlash(filepath.Dir(path))
		if _, ok := found[dir]; !ok {
			found[dir] = room{make(map[string]bool), make(map[string]bool)}
		}
		imports := found[dir].imports
		if isTest(path) {
			imports = found[dir].testImports
		}
		for _, spec := range f.Imports {
			imports[strings.Trim(spec.Path.Value, `"`)] = true
		}
	}
	return found
}

func relative(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

func isOurs(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// reach is every package that the imports name, and those of ours that they lead to
// through any number of others.
func reach(all map[string]room, imports map[string]bool) map[string]bool {
	reached := make(map[string]bool)
	var follow func(imports map[string]bool, direct bool)
	follow = func(imports map[string]bool, direct bool) {
		for dep := range imports {
			if !direct && !isOurs(dep) || reached[relative(dep)] {
				continue
			}
			reached[relative(dep)] = true
			follow(all[relative(dep)].imports, false)
		}
	}
	follow(imports, true)
	return reached
}

// matches reports whether a package is what a pattern names.
func matches(pattern, path string) bool {
	tree, ok := strings.CutSuffix(pattern, "/...")
	return path == tree || ok && strings.HasPrefix(path, tree+"/")
}

func TestImports(t *testing.T) {
	all := rooms(t)
	check := func(b ban, importsOf func(room) map[string]bool) {
		fromExists, toExists := false, false
		for path, r := range all {
			toExists = toExists || matches(b.to, path)
			if !matches(b.from, path) {
				continue
			}
			fromExists = true
			for dep := range reach(all, importsOf(r)) {
				if dep != path && matches(b.to, dep) {
					t.Errorf("%s imports %s: %s", path, dep, b.reason)
				}
			}
		}
		if !fromExists {
			t.Errorf("the ban of %s in %s is about a package that does not exist", b.to, b.from)
		}
		if !toExists && !inStandardLibrary(b.to) {
			t.Errorf("the ban of %s in %s bans a package that does not exist", b.to, b.from)
		}
	}
	for _, b := range bans {
		check(b, func(r room) map[string]bool { return r.imports })
	}
	for _, b := range testBans {
		check(b, func(r room) map[string]bool { return r.testImports })
	}
	for _, o := range only {
		for path, r := range all {
			if !matches(o.from, path) {
				continue
			}
			for dep := range r.imports {
				if !slices.Contains(o.imports, dep) && (isOurs(dep) || !o.ofOurs) {
					t.Errorf("%s imports %s: %s", path, dep, o.reason)
				}
			}
		}
	}
}

// inStandardLibrary reports whether a package is part of the Go that runs this.
func inStandardLibrary(path string) bool {
	p, err := build.Import(path, "", build.FindOnly)
	return err == nil && p.Goroot
}

func TestFewImporters(t *testing.T) {
	all := rooms(t)
	for path, importers := range onlyBy {
		if _, ok := all[path]; !ok {
			t.Errorf("%s is said to have few importers and does not exist", path)
		}
		for from, r := range all {
			for dep := range r.imports {
				if relative(dep) == path && from != path && !slices.Contains(importers, from) && !strings.HasPrefix(from, path+"/") {
					t.Errorf("%s imports %s, which only %v may", from, path, importers)
				}
			}
		}
	}
}

// Whoever imports the library gets nothing but it.
func TestLibraryPullsInNothing(t *testing.T) {
	all := rooms(t)
	library := reach(all, map[string]bool{module: true})
	for dep := range library {
		for path := range all[dep].imports {
			if !isOurs(path) && !inStandardLibrary(path) {
				t.Errorf("importing the library brings %s, by %s", path, dep)
			}
		}
	}
}

// files parses every Go file of the project, those of the nested module included.
func files(t *testing.T) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	set := token.NewFileSet()
	parsed := make(map[string]*ast.File)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "results") {
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

func TestOnePackageCommentEach(t *testing.T) {
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

// mayBeVar are package variables that are no constants for the compiler and yet
// never change. Each has its reason.
var mayBeVar = map[string]string{
	"internal/wire/http1.classes":   "a table, filled once and only read",
	"internal/wire/http1.nameTable": "a table, filled once and only read",
	"internal/wire/http1.names":     "a table of constants",
	"internal/engine.statuses":      "a table of constants",
	"internal/engine.keepAlive":     "a header value, only read",
	"fcgi.ErrRequestAborted":        "an error of the engine's",
	"fcgi.ErrConnClosed":            "an error of the engine's",
	"fcgi.ErrOverloaded":            "an error of the client's",
	"fcgi.ErrCannotMultiplex":       "an error of the client's",
	"fcgi.ErrUnknownRole":           "an error of the client's",
	"internal/page.plotSource":      "an embedded file",
	"internal/cli.seriesSource":     "an embedded file",
	"internal/page.style":           "an embedded file",
	"front/files.listingSource":     "an embedded file",
	"front/nginxconf.tableText":     "an embedded file",
	"front/files.reserved":          "a table of constants",
	"lab/proc.callNames":            "an embedded file",
	"lab.ownNginxConf":              "an embedded file",
	"lab.ownSource":                 "an embedded file",
	"lab/gobench.pageSource":        "an embedded file",
	"lab/report.pageSource":         "an embedded file",
	"load/report.pageSource":        "an embedded file",
}

// Package variables are errors, embedded files and tables. Anything else would be
// state that two users of a package share.
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
							t.Errorf("%s: variable %s: state belongs to a value that somebody owns", path, name.Name)
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

// mayBeLong are files and functions over the limits, with what they may have
// and why. The number only goes down.
var mayBeLong = map[string]struct {
	lines  int
	reason string
}{}

func TestNothingIsTooLong(t *testing.T) {
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
		if isTest(path) {
			continue
		}
		limit := maxFileLines
		if path == "cmd/tare/main.go" {
			limit = maxMainLines // main is one call
		}
		check(path, set.Position(f.FileEnd).Line, limit)
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
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || receiverIsExported(d)) && !implementsObvious(d) {
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

// implementsObvious names methods whose meaning is that of a well-known interface.
func implementsObvious(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap", "Read", "Write", "LocalAddr", "RemoteAddr",
		"SetDeadline", "SetReadDeadline", "SetWriteDeadline"}, d.Name.Name)
}

// A panic is for our own bugs and says so, or repeats what net/http does for a bug
// of its caller.
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
				return true // how net/http wants a handler to end a response that it cannot complete
			}
			prefix := f.Name.Name + ": BUG: "
			if text := firstString(call.Args[0]); !strings.HasPrefix(text, prefix) && (f.Name.Name != "engine" || !likeNetHTTP(text)) {
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

// Documents have one title each, and their links lead somewhere.
func TestDocuments(t *testing.T) {
	docs, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob("docs/*.md")
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	for _, name := range append(docs, more...) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(b), "")
		if n := len(regexp.MustCompile(`(?m)^# `).FindAllString(text, -1)); n != 1 {
			t.Errorf("%s has %d titles, want one", name, n)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if target := m[1]; !strings.Contains(target, "://") {
				if _, err := os.Stat(filepath.Join(filepath.Dir(name), target)); err != nil {
					t.Errorf("%s links to %s, which does not exist", name, target)
				}
			}
		}
	}
}

// What ARCHITECTURE.md's tables say of rooms and of dependencies is what there is.
func TestArchitectureNamesEverything(t *testing.T) {
	b, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, roomsText, _ := strings.Cut(string(b), "\n## Rooms\n")
	roomsText, depsText, _ := strings.Cut(roomsText, "\n## Dependencies\n")
	roomsText, _, _ = strings.Cut(roomsText, "\n## ")
	all := rooms(t)
	for path := range all {
		if !regexp.MustCompile("(?m)^\\| `"+regexp.QuoteMeta(path)+"` ").MatchString(roomsText) && !strings.HasPrefix(path, "contenders") {
			t.Errorf("ARCHITECTURE.md does not name the room %s", path)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` ").FindAllStringSubmatch(roomsText, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("ARCHITECTURE.md names the room %s, which does not exist", m[1])
		}
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	direct := make(map[string]bool)
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) == 2 && strings.HasPrefix(fields[1], "v") {
			direct[fields[0]] = true
			if !strings.Contains(depsText, "| "+fields[0]+" |") {
				t.Errorf("ARCHITECTURE.md does not say why there is %s", fields[0])
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| ([^ |]+\.[^ |]+) \|`).FindAllStringSubmatch(depsText, -1) {
		if !direct[m[1]] {
			t.Errorf("ARCHITECTURE.md says why there is %s, and there is none", m[1])
		}
	}
}
