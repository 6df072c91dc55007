package tare_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"go/version"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The tests of net/http's server pass with tare, over HTTP/1.1 and HTTP/2, with TLS and without, on
// shards and on the goroutine path. Those that fail with net/http itself do not count: some fail in
// the modes that were added, and some depend on what the port replaces.
func TestServerTestsOfNetHTTPPass(t *testing.T) {
	testkit.Long(t, "it runs net/http's tests")
	testkit.NoRace(t, "it runs another program")
	v := testkit.Release()
	if isKnown := slices.Contains([]string{"go1.26", "go1.27"}, version.Lang(v)); !isKnown ||
		testkit.NetHTTPPrecedes("go1.26.8", "go1.27.0") {
		t.Skipf("the port is of the tests from Go 1.26.8 to 1.27, this is %s", v)
	}
	program, dir := buildPort(t)
	theirs, differences := runPort(t, program, dir, "net/http"), portDifferences()
	for field, name := range shownByNetHTTP {
		_, exists := reflect.TypeFor[http.Server]().FieldByName(field)
		if exists && (theirs[name].status != passed || differences[name] != "") {
			t.Errorf("%s does not show what the field %s does", name, field)
		}
	}
	for _, kind := range []string{"shards", "goroutines"} {
		t.Run(kind, func(t *testing.T) {
			ours := runPort(t, program, dir, kind)
			compared := 0
			for _, name := range slices.Sorted(maps.Keys(theirs)) {
				if theirs[name].status != passed {
					continue
				}
				compared++
				why, fails := differences[name], ours[name].status != passed
				switch {
				case fails && why == "":
					checkAlone(t, program, dir, kind, name)
				case !fails && why != "":
					t.Errorf("%s: no longer differs: %s", name, why)
				}
			}
			t.Logf("%d tests were compared", compared)
			testkit.Equal(t, compared >= leastPorted, true, "enough tests were compared")
		})
	}
}

const (
	leastPorted = 500
	passed      = "PASS"
	crashed     = "crash"
)

type portResult struct {
	status string // passed, FAIL, SKIP or crashed
	output string // of the test's process, unless it has passed
}

// checkAlone runs a ported test that has failed among others by itself, and this run decides: some
// depend on how fast the machine is.
func checkAlone(t *testing.T, program, dir, kind, name string) {
	t.Helper()
	test, _, _ := strings.Cut(name, "/")
	results := runPortedTest(t, program, dir, kind, test, "")
	if results[name].status != passed {
		t.Errorf("%s: %s\n%s%s", name, results[test].status, results[name].output, results[test].output)
	}
}

// runPort runs each test in a process of its own, because some panic. It returns the results by
// name.
func runPort(t *testing.T, program, dir, kind string) map[string]portResult {
	t.Helper()
	list := testkit.Value(testkit.Command(t, program, "-test.list", "^Test").Output())(t)
	all := make(map[string]portResult)
	var mu sync.Mutex
	var running sync.WaitGroup
	turns := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	for _, test := range strings.Fields(string(list)) {
		running.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results, modes := make(map[string]portResult), steadyModes()[test]
			if len(modes) == 0 {
				results = runPortedTest(t, program, dir, kind, test, "")
				if results[test].status == crashed {
					modes = []string{"h1", "https1", "h2", "h2unencrypted"}
				}
			}
			for _, mode := range modes {
				maps.Copy(results, runPortedTest(t, program, dir, kind, test, mode))
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, results)
		})
	}
	running.Wait()
	return all
}

// steadyModes returns the modes of tests that hang in their other modes unless the machine is busy,
// with every server, also net/http's.
func steadyModes() map[string][]string {
	return map[string][]string{"TestTransportAndServerSharedBodyRace": {"h1", "https1", "h2"}}
}

func runPortedTest(t *testing.T, program, dir, kind, test, mode string) map[string]portResult {
	t.Helper()
	c := testkit.Command(t, program, "-test.v", "-test.short", "-test.timeout", portedTestTime,
		"-test.run", "^"+test+"$")
	c.Dir = dir
	c.Env = append(os.Environ(), "TARE_NETHTTP="+kind, "TARE_MODE="+mode)
	out, _ := c.CombinedOutput()
	results := make(map[string]portResult)
	for _, m := range regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+) \(`).FindAllSubmatch(out, -1) {
		r := portResult{status: string(m[1])}
		if r.status == "FAIL" {
			r.output = string(out)
		}
		results[string(m[2])] = r
	}
	if _, ended := results[test]; !ended {
		name := test
		if mode != "" {
			name = filepath.Join(test, mode)
		}
		results[name] = portResult{crashed, string(out)}
	}
	return results
}

const portedTestTime = "15s"

// portDir has what replaces the internals of net/http in its tests. The ported files are compiled
// as if they were in the same folder.
const portDir = "testdata/nethttp"

// ownPrefix marks the files of portDir among those of a port.
const ownPrefix = "own_"

// port makes the tests of net/http, which are part of each Go distribution, a package of this
// module whose servers are those of function "served" in testdata/nethttp. Declarations that use
// net/http's internals are dropped, and so are those that use these.
type port struct {
	*testing.T
	set      *token.FileSet
	files    map[string]*ast.File // by name
	importer types.Importer
	checked  *types.Info // of the last check
}

// portedFiles are the files whose tests run. The others only have what these use.
func portedFiles() []string {
	return []string{"serve_test.go", "clientserver_test.go", "responsecontroller_test.go", "alpn_test.go"}
}

// buildPort compiles the ported tests and returns the program's name and its working directory.
func buildPort(t *testing.T) (program, dir string) {
	dir = filepath.Join(runtime.GOROOT(), "src", "net", "http")
	p := &port{T: t, set: token.NewFileSet(), files: make(map[string]*ast.File)}
	p.parse(dir, "")
	if len(p.files) == 0 {
		testkit.Missing(t, dir, " has no tests; install Go from its archive, which has them")
	}
	delete(p.files, "main_test.go")
	for name, f := range p.files {
		dropTests(f, !slices.Contains(portedFiles(), name))
		dropHTTP3(f)
	}
	p.parse(portDir, ownPrefix)
	p.importer = p.newImporter()
	for p.dropInvalid() {
	}
	for name, f := range p.files {
		if !strings.HasPrefix(name, ownPrefix) {
			p.redirectCalls(f)
		}
	}
	return p.compile(), dir
}

// parse parses the files of net/http's external tests, without comments.
func (p *port) parse(dir, prefix string) {
	p.Helper()
	names := testkit.Value(filepath.Glob(filepath.Join(dir, "*_test.go")))(p)
	replaced := strings.NewReplacer(
		"httptest.Server", "testServer", "httptest.NewServer", "newTestServer",
		"httptest.NewTLSServer", "newTLSTestServer", "httptest.NewUnstartedServer", "newUnstartedTestServer",
		"testcert.LocalhostCert", "localhostCert", "testcert.LocalhostKey", "localhostKey",
		`"internal/synctest"`, `"testing/synctest"`, "func run[", "func runModes[",
		// If a timeout ends a connection behind its handshake, net/http's client waits for the
		// request's body forever.
		"timeout := 5 * time.Millisecond", "timeout := 500 * time.Millisecond")
	for _, name := range names {
		text := testkit.Value(os.ReadFile(name))(p)
		if prefix == "" {
			text = []byte(replaced.Replace(string(text)))
		}
		f := testkit.Value(parser.ParseFile(p.set, name, text, parser.SkipObjectResolution))(p)
		if f.Name.Name == "http_test" {
			p.files[prefix+filepath.Base(name)] = f
		}
	}
}

func dropTests(f *ast.File, all bool) {
	f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool {
		fn, ok := d.(*ast.FuncDecl)
		return ok && fn.Recv == nil && testkit.IsTestFunction(fn.Name.Name) &&
			(all || !strings.HasPrefix(fn.Name.Name, "Test"))
	})
}

// dropHTTP3 drops what newClientServerTest does for HTTP/3 only.
func dropHTTP3(f *ast.File) {
	isHTTP3 := func(x ast.Expr) bool {
		found := false
		ast.Inspect(x, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == "http3Mode"
			return true
		})
		return found
	}
	ast.Inspect(f, func(n ast.Node) bool {
		fn, isFunction := n.(*ast.FuncDecl)
		if block, ok := n.(*ast.BlockStmt); ok {
			block.List = slices.DeleteFunc(block.List, func(s ast.Stmt) bool {
				clause, isClause := s.(*ast.CaseClause)
				choice, isChoice := s.(*ast.IfStmt)
				return isClause && slices.ContainsFunc(clause.List, isHTTP3) || isChoice && isHTTP3(choice.Cond)
			})
		}
		return !isFunction || fn.Name.Name == "newClientServerTest"
	})
}

// newImporter returns an importer for what the files import, except internal packages.
func (p *port) newImporter() types.Importer {
	p.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}
	for path := range p.imports() {
		args = append(args, path)
	}
	exported := make(map[string]string)
	for line := range strings.Lines(string(p.goTool(args...))) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !isInternal(path) {
			exported[path] = file
		}
	}
	return importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) {
		if exported[path] == "" {
			return nil, os.ErrNotExist
		}
		return os.Open(exported[path])
	})
}

// isInternal reports whether only the standard library can import a package.
func isInternal(path string) bool {
	isShared := !strings.HasPrefix(path, "github.com/") && slices.Contains(strings.Split(path, "/"), "internal")
	return isShared || strings.HasPrefix(path, "golang.org/")
}

func (p *port) imports() map[string]bool {
	all := make(map[string]bool)
	for _, f := range p.files {
		for _, spec := range f.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if !isInternal(path) {
				all[path] = true
			}
		}
	}
	return all
}

// dropInvalid drops declarations that do not compile, and reports whether there were any.
func (p *port) dropInvalid() bool {
	var errs []token.Pos
	config := types.Config{Importer: p.importer, Error: func(err error) {
		errs = append(errs, err.(types.Error).Pos) //nolint:errorlint // documented
	}}
	p.checked = &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)}
	all := slices.Collect(maps.Values(p.files))
	_, _ = config.Check("net/http_test", p.set, all, p.checked)
	for _, f := range all {
		f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool { return dropSpecs(d, errs) })
	}
	return len(errs) > 0
}

// dropSpecs drops the parts of a declaration at which there are errors, and reports whether nothing
// is left.
func dropSpecs(d ast.Decl, errs []token.Pos) bool {
	isWrong := func(n ast.Node) bool {
		return slices.ContainsFunc(errs, func(at token.Pos) bool { return n.Pos() <= at && at < n.End() })
	}
	g, ok := d.(*ast.GenDecl)
	if !ok {
		return isWrong(d)
	}
	g.Specs = slices.DeleteFunc(g.Specs, func(s ast.Spec) bool { return isWrong(s) })
	return len(g.Specs) == 0
}

// redirectCalls makes calls of net/http's servers those of the server that is tested.
func (p *port) redirectCalls(f *ast.File) {
	methods := []string{"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS", "Shutdown", "Close"}
	functions := map[string]string{"Serve": "serve", "ServeTLS": "serveTLS"}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			o, ok := p.checked.Uses[n].(*types.Func)
			if ok && o.Pkg() != nil && o.Pkg().Path() == "net/http" && o.Parent() == o.Pkg().Scope() &&
				functions[n.Name] != "" {
				n.Name = functions[n.Name]
			}
		case *ast.SelectorExpr:
			of := p.checked.Types[n.X].Type
			if of == nil || !slices.Contains(methods, n.Sel.Name) {
				return true
			}
			switch of.String() {
			case "net/http.Server":
				n.X = call("served", &ast.UnaryExpr{Op: token.AND, X: n.X})
			case "*net/http.Server":
				n.X = call("served", n.X)
			}
		}
		return true
	})
}

func call(name string, x ast.Expr) ast.Expr {
	return &ast.CallExpr{Fun: ast.NewIdent(name), Args: []ast.Expr{x}}
}

func (p *port) compile() (program string) {
	p.Helper()
	dir, overlay := p.TempDir(), make(map[string]string)
	for name, f := range p.files {
		if strings.HasPrefix(name, ownPrefix) {
			continue
		}
		var text bytes.Buffer
		testkit.Must(p, format.Node(&text, p.set, f))
		at := filepath.Join(dir, name)
		testkit.Must(p, os.WriteFile(at, text.Bytes(), 0o600))
		seen := testkit.Value(filepath.Abs(filepath.Join(portDir, name)))(p)
		overlay[seen] = at
	}
	text := testkit.Value(json.Marshal(map[string]any{"Replace": overlay}))(p)
	list := filepath.Join(dir, "overlay.json")
	testkit.Must(p, os.WriteFile(list, text, 0o600))
	program = filepath.Join(dir, "nethttp.test")
	p.goTool("test", "-c", "-vet=off", "-ldflags=-s", "-overlay", list, "-o", program, "./"+portDir)
	return program
}

func (p *port) goTool(args ...string) []byte {
	p.Helper()
	command := exec.CommandContext(p.Context(), "go", args...)
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		p.Fatal(fmt.Errorf("go %s: %w\n%s", args[0], err, errs.Bytes()))
	}
	return out
}

// portDifferences are the tests of net/http that fail with tare, and what the package documentation
// states about it. They must fail.
func portDifferences() map[string]string {
	const order = "Fields that the server adds, such as Date, may be in a different order."
	return map[string]string{
		"TestTolerateCRLFBeforeRequestLine": "One empty line before a request is skipped",
		"TestServerValidatesHostHeader":     "an IPv6 address without brackets or with a zone",
		"TestEarlyHints":                    order,
		"TestProcessing":                    order,
		"TestH12_HandlerWritesTooLittle":    "fewer bytes than its Content-Length states ends with an error",
	}
}

func TestPortDifferencesAreDocumented(t *testing.T) {
	b := testkit.Value(os.ReadFile("../../../doc.go"))(t)
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(b), "\n//", " ")), " ")
	for name, why := range portDifferences() {
		testkit.Contains(t, text, why, "the documentation of", name)
	}
}
