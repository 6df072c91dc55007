//go:build !race

package laws

import (
	"go/build"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// The law about imports: which package may import which. Do not change the tables to make a test
// pass unless the architecture is meant to change; then ARCHITECTURE.md changes, too.

const module = "github.com/tarehq/tare"

// A ban forbids imports. The test reports the reason.
type ban struct {
	from   string // a package of the project; with /... also those below it
	reason string
	to     []string // likewise, or packages of the standard library
}

// bans on the project's packages also forbid indirect imports. Bans on other packages forbid direct
// imports. Imports of files for all operating systems count.
var bans = []ban{
	{"internal/poll", "sockets are independent of protocols", []string{"net/http", "internal/wire/..."}},
	{"internal/poll", "sockets are below the engine", []string{"internal/engine/..."}},

	{"internal/client", "the client does not depend on the server", []string{"internal/engine"}},
	{"internal/client", "the library must not import the tools", []string{"load", "internal/lab/..."}},

	{"internal/client/h2", "the client does not depend on the server", []string{"internal/engine/..."}},

	{"fcgi", "the library must not import the tools", []string{"load", "internal/lab/..."}},

	{"upgrade", "it works with any server that has Serve and Shutdown",
		[]string{".", "fcgi", "internal/engine", "front"}},
	{".", "the library does not grow by what some programs need", []string{"upgrade", "internal/acme"}},
	{"internal/sdnotify", "the service manager does not depend on protocols", []string{"net/http"}},

	{"internal/engine", "the server does not depend on its generator", []string{"load", "internal/lab/..."}},
	{".", "the library must not import the tools", []string{"load", "internal/lab/...", "internal/cli"}},

	{"load", "the generator does not depend on the server", []string{"internal/engine", "."}},
	{"load", "the generator has its own HTTP client", []string{"net/http"}},
	{"load", "the generator is independent of experiments", []string{"internal/lab/..."}},
	{"load/hist", "a histogram has only numbers", []string{"net", "internal/..."}},

	{"load/report", "reports of the generator do not need the lab", []string{"internal/lab/..."}},
	{"load/report", "the generator does not depend on the server", []string{"internal/engine"}},
	{"load/report", "reports are written to an io.Writer", []string{"os"}},

	{"front/internal/upstream", "choosing a server is independent of the request", []string{"net/http"}},
	{"front/internal/upstream", "choosing a server is independent of the client", []string{"internal/..."}},
	{"front/internal/upstream", "it gets its configuration from the caller", []string{"front"}},
	{"front/internal/files", "the handler works on any http.Server, and uses interfaces for what tare does better",
		[]string{"internal/engine/...", "internal/client/...", "."}},
	{"front/internal/files", "handlers must not import the tools", []string{"load/...", "internal/lab/..."}},
	{"front", "the front works on any http.Server", []string{"internal/engine", "."}},
	{"front", "handlers must not import the tools", []string{"load/...", "internal/lab/..."}},
	{"front/internal/core", "the core names no feature",
		[]string{"front/internal/guard", "front/internal/static", "front/internal/observe",
			"front/internal/transform", "front/internal/clients", "front/internal/proxy"}},
	{"front/internal/fetch", "a request to an upstream knows no exchange", []string{"front"}},
	{"front/internal/fetch", "a cache does not concern requests to upstreams", []string{"front/internal/cache"}},
	{"front/internal/cache", "a cache is independent of where responses come from",
		[]string{"internal/client/...", "internal/engine/...", "internal/connection"}},
	{"front/internal/cache", "it gets its configuration from the caller", []string{"front"}},
	{"internal/dns", "names are independent of what connections are for", []string{"net/http"}},
	{"internal/dns", "it is below all that resolves names", []string{"internal/..."}},
	{"front/internal/limit", "limits by key are independent of protocols", []string{"net/http"}},
	{"front/internal/limit", "limits by key are independent of requests", []string{"internal/..."}},
	{"front/internal/limit", "it gets its configuration from the caller", []string{"front"}},
	{"front/nginxconf", "this package reads a configuration and does not run it",
		[]string{"net/http", "front", "internal/..."}},
	{"front/internal/accesslog", "log lines are independent of the server", []string{"internal/..."}},
	{"front/internal/spool", "a spool is independent of what its lines are about", []string{"net/http"}},
	{"internal/privilege", "privileges are independent of networks", []string{"net"}},
	{"internal/certs", "certificates are independent of HTTP", []string{"net/http"}},
	{"front/...", "templates keep all exported methods in users' programs",
		[]string{"html/template", "text/template"}},

	{"internal/acme", "certificates do not depend on what is served", []string{"front", "."}},

	{"internal/lab/...", "tare is started as a process, like its rivals", []string{"internal/engine", "."}},
	{"internal/lab/...", "the lab can be used without the command line", []string{"internal/cli"}},
	{"internal/stat", "statistics have only numbers", []string{"os", "internal/lab/..."}},
	{"internal/lab/analyze", "analysis uses records only", []string{"os", "internal/lab/trial"}},
	{"internal/lab/analyze", "reports draw what analysis finds, never the reverse",
		[]string{"internal/lab/report"}},
	{"internal/lab/sample", "stored figures are independent of statistics", []string{"internal/stat"}},
	{"internal/lab/sample", "stored figures are independent of their sources", []string{"internal/lab/trial"}},
	{"internal/lab/report", "reports draw stored figures", []string{"internal/lab/trial"}},
	{"internal/lab/trial", "measuring does not depend on how results are drawn", []string{"internal/lab/report"}},
	{"internal/lab", "measuring does not depend on how results are drawn", []string{"internal/lab/report"}},
	{"internal/lab/proc", "reading /proc is below the rest of the lab", []string{"internal/lab/..."}},
	{"internal/lab/equal", "responses are compared with a codec other than the generator's",
		[]string{"internal/wire/..."}},
	{"internal/lab/report", "reports start no processes", []string{"os/exec"}},
	{"internal/lab/report", "reports get their input from the caller", []string{"internal/lab"}},
}

// testBans forbid imports of tests. Other imports of tests are allowed.
var testBans = []ban{
	{"load", "a generator tested only with our server could have the same faults", []string{"internal/engine", "."}},
	{"internal/engine/...", "a server tested only with our generator could have the same faults", []string{"load"}},
	{"internal/wire/...", "the codec is tested without its users", []string{"internal/engine"}},
}

// codec is the tree whose imports from elsewhere are restricted, too.
const codec = "internal/wire/..."

// only lists all packages of the project that a tree may import, where that is shorter than bans.
var only = []struct {
	from    string
	reason  string
	imports []string
}{
	{codec, "a codec turns bytes into offsets: it does not read, wait, log, share or use clocks",
		[]string{"bytes", "encoding/binary", "math", "math/bits", "net/netip", "strconv", "internal/wire/http1"}},
	{"internal/engine/exchange", "exchanges know neither sockets nor codecs; CGI shares the syntax of HTTP/1's fields",
		[]string{"internal/wire/http1", "internal/connection", "internal/poison"}},
	{"internal/engine/h1", "a codec knows exchanges, not connections",
		[]string{"internal/engine/exchange", "internal/wire/http1"}},
	{"internal/engine/fastcgi", "a codec knows exchanges, not connections",
		[]string{"internal/engine/exchange", "internal/wire/fcgi", "internal/wire/http1"}},
	{"internal/engine/h2", "a session knows exchanges and its carrier, not sockets",
		[]string{"internal/engine/exchange", "internal/wire/http1", "internal/wire/http2", "internal/connection",
			"internal/poison"}},
	{"internal/client/h2", "connections know neither pools nor exchanges",
		[]string{"internal/wire/http1", "internal/wire/http2", "internal/connection", "internal/poison"}},
	{"internal/engine/netconn", "connections know neither their protocol nor their server",
		[]string{"internal/engine/exchange", "internal/engine/reuse", "internal/engine/h2",
			"internal/connection", "internal/poll"}},
	{"internal/engine/shard", "shards know neither the server nor the codecs of exchanges",
		[]string{"internal/engine/exchange", "internal/engine/h2", "internal/engine/netconn",
			"internal/engine/reuse", "internal/engine/sched", "internal/connection", "internal/poll",
			"internal/wire/http2", "internal/poison"}},
	{"internal/engine/sched", "the scheduler knows neither sockets nor requests", nil},
	{"internal/engine/reuse", "goroutines are independent of their work", nil},
	{"internal/dialect/...", "a dialect turns flags into a plan and a result into a report",
		[]string{"load", "load/hist", "internal/dialect", "internal/dialect/getopt"}},
	{"front/internal/message", "rules about messages are independent of exchanges",
		[]string{"front/internal/grammar", "internal/wire/http1"}},
	{"front/internal/realip", "addresses are independent of exchanges",
		[]string{"front/conf", "front/internal/netset"}},
	{"front/internal/mediatype", "types are independent of files", []string{"front/conf"}},
	{"front/internal/clientcert", "certificates are independent of requests",
		[]string{"front/conf", "front/internal/crl", "front/internal/nginxstatus"}},
	{"front/conf", "a configuration is plain data: it does not know who reads or serves it", nil},
	{"front/internal/grammar", "texts are independent of what they configure", []string{"front/conf"}},
	{"front/internal/hostname", "names are independent of what has them", nil},
	{"front/internal/places", "conf.Config is walked in one place", []string{"front/conf"}},
	{"front/internal/uri", "paths are independent of requests", nil},
	{"front/internal/replace", "text is independent of responses", nil},
	{"front/internal/htpasswd", "passwords are independent of requests", []string{"front/internal/files"}},
	{"load/compare", "a comparison uses results and the lab's statistics",
		[]string{"load", "load/hist", "load/report", "internal/stat"}},
	{"load/agent", "an agent runs plans and does not know who controls it", []string{"load"}},
	{"load/fleet", "a fleet divides plans and joins results; it neither sends requests nor writes reports",
		[]string{"load", "load/agent", "internal/printable"}},
	{"internal/inmemory", "clients in memory do not depend on their servers", nil},
	{"internal/page", "it is below all packages that write pages", nil},
	// The shared package holds what all contenders serve, so that it is the same.
	{"contenders/...", "a contender is a program like a user's: it imports the public packages, and clients in memory",
		[]string{".", "fcgi", "front/server", "upgrade", "internal/application", "internal/inmemory", "contenders/engines"}},
}

// onlyBy lists packages, or trees of them, with all importers that are allowed besides those below.
var onlyBy = map[string][]string{
	"internal/cli":                 {"cmd/tare", "internal/dist"}, // packages contain its help texts
	"internal/dialect/...":         {"internal/cli"},
	"internal/dialect/dialecttest": nil, // tests only
	"internal/testkit/...":         nil, // tests only
	"internal/client":              {".", "fcgi", "front/internal/proxy", "front/internal/fetch"},
	"internal/client/h2":           {"internal/client"},
	"internal/engine":              {".", "fcgi"},
	"internal/engine/exchange": {"internal/engine", "internal/engine/fastcgi", "internal/engine/h1",
		"internal/engine/h2", "internal/engine/netconn", "internal/engine/shard"},
	"internal/engine/fastcgi": {"internal/engine", "fcgi"},
	"internal/engine/h1":      {"internal/engine"},
	"internal/engine/h2":      {"internal/engine", "internal/engine/netconn", "internal/engine/shard"},
	"internal/engine/netconn": {"internal/engine", "internal/engine/shard"},
	"internal/engine/reuse":   {"internal/engine/netconn", "internal/engine/shard"},
	"internal/engine/sched":   {"internal/engine/shard"},
	"internal/engine/shard":   {"internal/engine"},
	"front/http3":             {"internal/cli"}, // only with the build tag http3
	"front/otel":              {"internal/cli"}, // only with the build tag otel
	"internal/acme":           {"front/server"},
	"internal/dns":            {"front/internal/proxy"},
	"internal/pcre":           {"front/internal/core", "front/internal/proxy"},
	"internal/poison": {"front/internal/core", "front/internal/proxy", "front/internal/fetch", "internal/client", "internal/client/h2",
		"internal/connection", "internal/engine/exchange", "internal/engine/h2", "internal/engine/shard"},
	"internal/privilege": {"internal/cli", "front/server"},
	"internal/listen":    {"internal/cli", "front/server", "upgrade"},
	"internal/sdnotify":  {"front/server", "upgrade"},
	"internal/safefile": {"internal/acme", "internal/anchor", "internal/cli", "internal/listen", "front/internal/core",
		"front/server"},
	"internal/lab": {"internal/cli"},
	"internal/application": {"internal/cli", "internal/lab/project", "contenders/ceiling",
		"contenders/fasthttp", "contenders/nethttp", "contenders/pages",
		"contenders/routes-fasthttp", "contenders/tare", "contenders/tare-front-bound"},
	"internal/textbar": {"internal/cli", "internal/lab/document", "load/report"},
	"load/agent":       {"internal/cli", "internal/lab/remote", "load/fleet"},
	"load/fleet":       {"internal/cli", "internal/lab/remote"},
}

// A room is a folder with Go files: the imports of its files, for all operating systems, and of its
// tests.
type room struct{ imports, testImports map[string]bool }

// rooms returns the folders of the project by path, including those of the nested module; "." is
// the root. Folders below testdata are no rooms.
func rooms(t *testing.T) map[string]room {
	t.Helper()
	found := make(map[string]room)
	for path, f := range files(t) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if strings.Contains(dir, "/testdata/") {
			continue
		}
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

// reach returns the imported packages and, through the project's packages, all indirect imports.
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

// matches reports whether a pattern such as "internal/lab/..." matches a package.
func matches(pattern, path string) bool {
	tree, ok := strings.CutSuffix(pattern, "/...")
	return path == tree || ok && strings.HasPrefix(path, tree+"/")
}

func TestImportsObeyBans(t *testing.T) {
	t.Chdir(root)
	all := rooms(t)
	exists := func(pattern string) bool {
		for path := range all {
			if matches(pattern, path) {
				return true
			}
		}
		return inStandardLibrary(pattern)
	}
	check := func(b ban, importsOf func(room) map[string]bool) {
		for _, pattern := range append(b.to, b.from) {
			if !exists(pattern) {
				t.Errorf("the ban in %s names %s, which does not exist", b.from, pattern)
			}
		}
		for path, r := range all {
			if !matches(b.from, path) {
				continue
			}
			for dep := range reach(all, importsOf(r)) {
				isBanned := func(pattern string) bool { return matches(pattern, dep) }
				if dep != path && slices.ContainsFunc(b.to, isBanned) {
					t.Errorf("%s imports %s: %s", path, dep, b.reason)
				}
			}
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
				if !slices.Contains(o.imports, relative(dep)) && (isOurs(dep) || o.from == codec) {
					t.Errorf("%s imports %s: %s", path, dep, o.reason)
				}
			}
		}
	}
}

// inStandardLibrary reports whether a package belongs to the standard library of the running Go.
func inStandardLibrary(path string) bool {
	p, err := build.Import(path, "", build.FindOnly)
	return err == nil && p.Goroot
}

func TestRestrictedPackagesHaveOnlyListedImporters(t *testing.T) {
	t.Chdir(root)
	all := rooms(t)
	for pattern, importers := range onlyBy {
		tree := strings.TrimSuffix(pattern, "/...")
		if _, ok := all[tree]; !ok {
			t.Errorf("%s is in onlyBy and does not exist", tree)
		}
		for from, r := range all {
			for dep := range r.imports {
				if isOurs(dep) && matches(pattern, relative(dep)) && !matches(tree+"/...", from) &&
					!slices.Contains(importers, from) {
					t.Errorf("%s imports %s, which only %v may", from, relative(dep), importers)
				}
			}
		}
	}
}

func TestLibraryHasNoDependencies(t *testing.T) {
	t.Chdir(root)
	all := rooms(t)
	library := reach(all, map[string]bool{module: true})
	for dep := range library {
		for path := range all[dep].imports {
			if !isOurs(path) && !inStandardLibrary(path) {
				t.Errorf("the library imports %s, through %s", path, dep)
			}
		}
	}
}

// HTTP/3 and OpenTelemetry are options: the default binary carries neither QUIC nor gRPC.
func TestDefaultBinaryHasNoOptions(t *testing.T) {
	testkit.Long(t, "it builds the command")
	t.Chdir(root)
	for tags, want := range map[string][]string{"": nil, "http3": {"github.com/quic-go/"},
		"otel": {"go.opentelemetry.io/", "google.golang.org/grpc"}} {
		out := testkit.Value(exec.Command("go", "list", "-deps", "-tags", tags, "./cmd/tare").Output())(t)
		for _, option := range []string{"github.com/quic-go/", "go.opentelemetry.io/", "google.golang.org/grpc"} {
			isIn := strings.Contains(string(out), "\n"+option)
			testkit.Equal(t, isIn, slices.Contains(want, option), option, "is in the binary with the tags", tags)
		}
	}
}
