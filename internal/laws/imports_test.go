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

// A ban forbids an import. The test reports the reason.
type ban struct {
	from   string // a package of the project; with /... also those below it
	to     string // likewise, or a package of the standard library
	reason string
}

// bans on the project's packages also forbid indirect imports. Bans on other packages forbid direct
// imports. Imports of files for all operating systems count.
var bans = []ban{
	{"internal/poll", "net/http", "sockets are independent of protocols"},
	{"internal/poll", "internal/wire/...", "sockets are independent of protocols"},
	{"internal/poll", "internal/engine/...", "sockets are below the engine"},

	{"internal/client", "internal/engine", "the client does not depend on the server"},
	{"internal/client", "load", "the library must not import the tools"},
	{"internal/client", "internal/lab/...", "the library must not import the tools"},

	{"internal/client/h2", "internal/engine/...", "the client does not depend on the server"},

	{"fcgi", "load", "the library must not import the tools"},
	{"fcgi", "internal/lab/...", "the library must not import the tools"},

	{"upgrade", ".", "it works with any server that has Serve and Shutdown"},
	{"upgrade", "fcgi", "it works with any server that has Serve and Shutdown"},
	{"upgrade", "internal/engine", "it works with any server that has Serve and Shutdown"},
	{"upgrade", "front", "it works with any server that has Serve and Shutdown"},
	{".", "upgrade", "the library does not grow by what some programs need"},
	{"internal/sdnotify", "net/http", "the service manager does not depend on protocols"},

	{"internal/engine", "load", "the server does not depend on its generator"},
	{"internal/engine", "internal/lab/...", "the server does not depend on its generator"},
	{".", "load", "the library must not import the tools"},
	{".", "internal/lab/...", "the library must not import the tools"},
	{".", "internal/cli", "the library must not import the tools"},

	{"load", "internal/engine", "the generator does not depend on the server"},
	{"load", ".", "the generator does not depend on the server"},
	{"load", "net/http", "the generator has its own HTTP client"},
	{"load", "internal/lab/...", "the generator is independent of experiments"},
	{"load/hist", "net", "a histogram has only numbers"},
	{"load/hist", "internal/...", "a histogram has only numbers"},

	{"load/report", "internal/lab/...", "reports of the generator do not need the lab"},
	{"load/report", "internal/engine", "the generator does not depend on the server"},
	{"load/report", "os", "reports are written to an io.Writer"},

	{"front/internal/upstream", "net/http", "choosing a server is independent of the request"},
	{"front/internal/upstream", "internal/...", "choosing a server is independent of the client"},
	{"front/internal/upstream", "front", "it gets its configuration from the caller"},
	{"front/internal/files", "internal/...", "the handler works on any http.Server, and uses interfaces for what tare does better"},
	{"front/internal/files", ".", "the handler works on any http.Server, and uses interfaces for what tare does better"},
	{"front/internal/files", "load/...", "handlers must not import the tools"},
	{"front/internal/files", "internal/lab/...", "handlers must not import the tools"},
	{"front", "internal/engine", "the front works on any http.Server"},
	{"front", ".", "the front works on any http.Server"},
	{"front", "load/...", "handlers must not import the tools"},
	{"front", "internal/lab/...", "handlers must not import the tools"},
	{"front/internal/core", "front/internal/guard", "the core names no feature"},
	{"front/internal/core", "front/internal/static", "the core names no feature"},
	{"front/internal/core", "front/internal/observe", "the core names no feature"},
	{"front/internal/core", "front/internal/transform", "the core names no feature"},
	{"front/internal/core", "front/internal/clients", "the core names no feature"},
	{"front/internal/core", "front/internal/proxy", "the core names no feature"},
	{"front/internal/fetch", "front", "a request to an upstream knows no exchange"},
	{"front/internal/fetch", "front/internal/cache", "a cache does not concern requests to upstreams"},
	{"front/internal/cache", "internal/client/...", "a cache is independent of where responses come from"},
	{"front/internal/cache", "internal/engine/...", "a cache is independent of where responses come from"},
	{"front/internal/cache", "internal/connection", "a cache is independent of where responses come from"},
	{"front/internal/cache", "front", "it gets its configuration from the caller"},
	{"internal/dns", "net/http", "names are independent of what connections are for"},
	{"internal/dns", "internal/...", "it is below all that resolves names"},
	{"front/internal/limit", "net/http", "limits by key are independent of protocols"},
	{"front/internal/limit", "internal/...", "limits by key are independent of requests"},
	{"front/internal/limit", "front", "it gets its configuration from the caller"},
	{"front/nginxconf", "net/http", "this package reads a configuration and does not run it"},
	{"front/nginxconf", "front", "this package reads a configuration and does not run it"},
	{"front/nginxconf", "internal/...", "this package reads a configuration and does not run it"},
	{"front/internal/accesslog", "internal/...", "log lines are independent of the server"},
	{"front/internal/spool", "net/http", "a spool is independent of what its lines are about"},
	{"internal/privilege", "net", "privileges are independent of networks"},
	{"internal/certs", "net/http", "certificates are independent of HTTP"},
	{"front/...", "html/template", "templates keep all exported methods in users' programs"},
	{"front/...", "text/template", "templates keep all exported methods in users' programs"},

	{"internal/acme", "front", "certificates do not depend on what is served"},
	{"internal/acme", ".", "certificates do not depend on what is served"},
	{".", "internal/acme", "the library does not grow by what some programs need"},

	{"internal/dialect/...", "internal/engine", "dialects are about load only"},
	{"internal/dialect/...", ".", "dialects are about load only"},
	{"internal/dialect/...", "internal/lab/...", "dialects are about load only"},

	{"internal/lab/...", "internal/engine", "tare is started as a process, like its rivals"},
	{"internal/lab/...", ".", "tare is started as a process, like its rivals"},
	{"internal/lab/...", "internal/cli", "the lab can be used without the command line"},
	{"internal/stat", "os", "statistics have only numbers"},
	{"internal/stat", "internal/lab/...", "statistics have only numbers"},
	{"internal/lab/analyze", "os", "analysis uses records only"},
	{"internal/lab/analyze", "internal/lab/report", "reports draw what analysis finds, never the reverse"},
	{"internal/lab/analyze", "internal/lab/trial", "analysis uses records only"},
	{"internal/lab/sample", "internal/stat", "stored figures are independent of statistics"},
	{"internal/lab/sample", "internal/lab/trial", "stored figures are independent of their sources"},
	{"internal/lab/report", "internal/lab/trial", "reports draw stored figures"},
	{"internal/lab/trial", "internal/lab/report", "measuring does not depend on how results are drawn"},
	{"internal/lab", "internal/lab/report", "measuring does not depend on how results are drawn"},
	{"internal/lab/proc", "internal/lab/...", "reading /proc is below the rest of the lab"},
	{"internal/lab/equal", "internal/wire/...", "responses are compared with a codec other than the generator's"},
	{"internal/lab/report", "os/exec", "reports start no processes"},
	{"internal/lab/report", "internal/lab", "reports get their input from the caller"},
}

// testBans forbid imports of tests. Other imports of tests are allowed.
var testBans = []ban{
	{"load", "internal/engine", "a generator tested only with our server could have the same faults"},
	{"load", ".", "a generator tested only with our server could have the same faults"},
	{"internal/engine/...", "load", "a server tested only with our generator could have the same faults"},
	{"internal/wire/...", "internal/engine", "the codec is tested without its users"},
}

// only lists all allowed imports of a tree, where that is shorter than bans.
var only = []struct {
	from    string
	imports []string // paths as they are imported
	ofOurs  bool     // packages of other modules are allowed
	reason  string
}{
	{
		"internal/wire/...",
		[]string{"bytes", "encoding/binary", "math", "math/bits", "net/netip", "strconv",
			module + "/internal/wire/http1"}, false,
		"a codec turns bytes into offsets: it does not read, wait, log, share or use clocks",
	},
	{
		"internal/engine/exchange",
		[]string{module + "/internal/wire/http1", module + "/internal/connection", module + "/internal/poison"}, true,
		"exchanges know neither sockets nor codecs; CGI shares the syntax of HTTP/1's fields",
	},
	{
		"internal/engine/h1", []string{module + "/internal/engine/exchange", module + "/internal/wire/http1"}, true,
		"a codec knows exchanges, not connections",
	},
	{
		"internal/engine/fastcgi", []string{module + "/internal/engine/exchange", module + "/internal/wire/fcgi",
			module + "/internal/wire/http1"}, true,
		"a codec knows exchanges, not connections",
	},
	{
		"internal/engine/h2", []string{module + "/internal/engine/exchange", module + "/internal/wire/http1",
			module + "/internal/wire/http2", module + "/internal/connection", module + "/internal/poison"}, true,
		"a session knows exchanges and its carrier, not sockets",
	},
	{
		"internal/client/h2", []string{module + "/internal/wire/http1", module + "/internal/wire/http2",
			module + "/internal/connection", module + "/internal/poison"}, true,
		"connections know neither pools nor exchanges",
	},
	{
		"internal/engine/netconn", []string{module + "/internal/engine/exchange", module + "/internal/engine/reuse",
			module + "/internal/engine/h2", module + "/internal/connection", module + "/internal/poll"}, true,
		"connections know neither their protocol nor their server",
	},
	{
		"internal/engine/shard", []string{module + "/internal/engine/exchange", module + "/internal/engine/h2",
			module + "/internal/engine/netconn", module + "/internal/engine/reuse",
			module + "/internal/engine/sched", module + "/internal/connection", module + "/internal/poll",
			module + "/internal/wire/http2"}, true,
		"shards know neither the server nor the codecs of exchanges",
	},
	{
		"internal/engine/sched", nil, true,
		"the scheduler knows neither sockets nor requests",
	},
	{
		"internal/engine/reuse", nil, true,
		"goroutines are independent of their work",
	},
	{
		"internal/dialect/...", []string{module + "/load", module + "/load/hist", module + "/internal/dialect",
			module + "/internal/dialect/getopt"}, true,
		"a dialect turns flags into a plan and a result into a report",
	},
	{
		"front/internal/message", []string{module + "/front/internal/grammar", module + "/internal/wire/http1"}, true,
		"rules about messages are independent of exchanges",
	},
	{
		"front/internal/realip", []string{module + "/front/conf", module + "/front/internal/netset"}, true,
		"addresses are independent of exchanges",
	},
	{
		"front/internal/mediatype", []string{module + "/front/conf"}, true,
		"types are independent of files",
	},
	{
		"front/internal/clientcert",
		[]string{module + "/front/conf", module + "/front/internal/crl", module + "/front/internal/nginxstatus"}, true,
		"certificates are independent of requests",
	},
	{
		"front/conf", nil, true,
		"a configuration is plain data: it does not know who reads or serves it",
	},
	{
		"front/internal/grammar", []string{module + "/front/conf"}, true,
		"texts are independent of what they configure",
	},
	{
		"front/internal/hostname", nil, true,
		"names are independent of what has them",
	},
	{
		"front/internal/places", []string{module + "/front/conf"}, true,
		"conf.Config is walked in one place",
	},
	{
		"front/internal/uri", nil, true,
		"paths are independent of requests",
	},
	{
		"front/internal/replace", nil, true,
		"text is independent of responses",
	},
	{
		"front/internal/htpasswd", []string{module + "/front/internal/files"}, true,
		"passwords are independent of requests",
	},
	{
		"load/compare",
		[]string{module + "/load", module + "/load/hist", module + "/load/report", module + "/internal/stat"}, true,
		"a comparison uses results and the lab's statistics",
	},
	{
		"load/agent", []string{module + "/load"}, true,
		"an agent runs plans and does not know who controls it",
	},
	{
		"load/fleet", []string{module + "/load", module + "/load/agent"}, true,
		"a fleet divides plans and joins results; it neither sends requests nor writes reports",
	},
	{
		"internal/inmemory", nil, true,
		"clients in memory do not depend on their servers",
	},
	{
		"internal/page", nil, true,
		"it is below all packages that write pages",
	},
	{
		// The shared package holds what all contenders serve, so that it is the same.
		"contenders/...", []string{module, module + "/fcgi", module + "/front/server",
			module + "/upgrade", module + "/internal/application", module + "/internal/inmemory"}, true,
		"a contender is a program like a user's: it imports the public packages, and clients in memory",
	},
}

// onlyBy lists packages with all their allowed importers.
var onlyBy = map[string][]string{
	"internal/cli":                 {"cmd/tare", "internal/dist"}, // packages contain its help texts
	"internal/dialect":             {"internal/cli"},
	"internal/dialect/ab":          {"internal/cli"},
	"internal/dialect/dialecttest": nil, // tests only
	"internal/dialect/siege":       {"internal/cli"},
	"internal/dialect/wrk":         {"internal/cli"},
	"internal/testkit":             {"internal/testkit/programs"}, // tests only
	"internal/testkit/programs":    nil,
	"internal/testkit/upgrades":    nil,
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
	"internal/dns/dnstest":    nil, // tests only
	"internal/pcre":           {"front/internal/core", "front/internal/proxy"},
	"internal/poison": {"front/internal/core", "front/internal/proxy", "front/internal/fetch", "internal/client", "internal/client/h2",
		"internal/connection", "internal/engine/exchange", "internal/engine/h2"},
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
	_, all := files(t)
	found := make(map[string]room)
	for path, f := range all {
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
			t.Errorf("the ban of %s in %s: the importing package does not exist", b.to, b.from)
		}
		if !toExists && !inStandardLibrary(b.to) {
			t.Errorf("the ban of %s in %s: the banned package does not exist", b.to, b.from)
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

// inStandardLibrary reports whether a package belongs to the standard library of the running Go.
func inStandardLibrary(path string) bool {
	p, err := build.Import(path, "", build.FindOnly)
	return err == nil && p.Goroot
}

func TestRestrictedPackagesHaveOnlyListedImporters(t *testing.T) {
	t.Chdir(root)
	all := rooms(t)
	for path, importers := range onlyBy {
		if _, ok := all[path]; !ok {
			t.Errorf("%s is in onlyBy and does not exist", path)
		}
		for from, r := range all {
			for dep := range r.imports {
				if relative(dep) == path && from != path && !slices.Contains(importers, from) &&
					!strings.HasPrefix(from, path+"/") {
					t.Errorf("%s imports %s, which only %v may", from, path, importers)
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
