package front_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// An invalid Config is an error with a position.
func TestInvalidConfigIsRejected(t *testing.T) {
	host := func(l ...conf.Location) conf.Config {
		return conf.Config{Hosts: []conf.Host{{Pos: "nginx.conf:3", Locations: l}}}
	}
	hosts := func(h ...conf.Host) conf.Config { return conf.Config{Hosts: h} }
	loc := func(l conf.Location) conf.Config {
		l.Pos = "nginx.conf:12"
		if l.Path == "" {
			l.Path = "/"
		}
		return host(l)
	}
	steps := func(s ...conf.Step) conf.Config { return loc(conf.Location{Steps: s}) }
	with := func(change func(c *conf.Config)) conf.Config {
		c := host(conf.Location{Path: "/", Proxy: &conf.Proxy{To: "127.0.0.1:1", Cache: &conf.ProxyCache{Zone: "one"}}})
		c.Caches = []conf.Cache{{Name: "one"}}
		change(&c)
		return c
	}
	maps := func(m ...conf.Map) conf.Config { return with(func(c *conf.Config) { c.Maps = m }) }
	upstreams := func(u ...conf.Upstream) conf.Config { return with(func(c *conf.Config) { c.Upstreams = u }) }
	split := func(c ...conf.Case) conf.Map { return conf.Map{Name: "m", Kind: "split_clients", Cases: c} }
	server, file := []conf.Server{{Addr: "127.0.0.1"}}, filepath.Join(t.TempDir(), "dir")
	for _, test := range []struct {
		c    conf.Config
		want string
	}{
		{conf.Config{}, "front: no hosts"},
		{steps(conf.Return{Status: 200, Text: "a$b"}), `front: nginx.conf:12: return: unknown variable $b in "a$b"`},
		{hosts(conf.Host{Pos: "nginx.conf:3", Steps: []conf.Step{conf.Set{Name: "x", Value: "$y"}}}),
			"front: nginx.conf:3: set $x: unknown variable $y"},
		{steps(conf.If{Left: "$uri", Then: []conf.Step{conf.Return{Status: 301, Text: "$z"}}}),
			"front: nginx.conf:12: return: unknown variable $z"},
		{host(conf.Location{Path: "/a", Pos: "nginx.conf:4", Locations: []conf.Location{{Path: "/b", Pos: "nginx.conf:5"}}}),
			`front: nginx.conf:5: location "/b" is outside of its enclosing location "/a"`},
		{loc(conf.Location{Match: "=", Locations: []conf.Location{{Path: "/b"}}}), "must not have nested locations"},
		{host(conf.Location{Path: "/", Locations: []conf.Location{{Match: "@", Path: "@b", Pos: "nginx.conf:5"}}}),
			"nginx.conf:5"},
		{host(conf.Location{Path: "/"}, conf.Location{Match: "^~", Path: "/", Pos: "nginx.conf:5"}),
			`nginx.conf:5: duplicate location "/"`},
		{host(conf.Location{Match: "=", Path: "/"}, conf.Location{Match: "=", Path: "/"}), "duplicate location"},
		{host(conf.Location{Match: "@", Path: "@a"}, conf.Location{Match: "@", Path: "@a"}), "duplicate location"},
		{loc(conf.Location{Match: "~", Path: "("}), `nginx.conf:12: location: invalid regular expression "("`},
		{hosts(conf.Host{Pos: "nginx.conf:3", Names: []string{"~("}}), `nginx.conf:3: server_name: invalid regular expression "("`},
		{hosts(conf.Host{Pos: "nginx.conf:3", Names: []string{"a.*.b"}}), `nginx.conf:3: invalid name "a.*.b"`},
		{hosts(conf.Host{Names: []string{"*.a.*"}}), "invalid name"},
		{hosts(conf.Host{Pos: "a:1", Listen: []conf.Listen{{Addr: "*:80", Default: true}}},
			conf.Host{Pos: "a:2", Listen: []conf.Listen{{Addr: "*:80", Default: true}}}),
			"front: a:2: *:80: duplicate default host, also at a:1"},
		{hosts(conf.Host{Listen: []conf.Listen{{Addr: "localhost:80"}}}, conf.Host{Listen: []conf.Listen{{Addr: "*:81"}}}),
			`"localhost:80"`},
		{loc(conf.Location{TryFiles: []conf.Text{"/x"}}), "nginx.conf:12: try_files"},
		{loc(conf.Location{TryFiles: []conf.Text{"/x", "=4x"}}), `invalid status "=4x"`},
		{loc(conf.Location{Proxy: &conf.Proxy{To: "app"}, Empty: true}), "more than one of Proxy"},
		{steps(conf.Set{Name: "uri", Value: "x"}), "nginx.conf:12: set: variable $uri cannot be set"},
		{steps(conf.Set{Name: "secure_link", Value: "1"}), "$secure_link cannot be set"},
		{loc(conf.Location{Match: "~", Path: "(?<host>x)"}), "$host cannot be set"},
		{loc(conf.Location{Match: "!"}), `nginx.conf:12: invalid match "!"`},
		{steps(conf.Rewrite{Pattern: "x", To: "/y", Flag: "lost"}), `invalid flag "lost"`},
		{steps(conf.If{Left: "x", Op: "=="}), `unknown operator "=="`},
		{steps(conf.Rewrite{Pattern: "x", To: "?a"}), "the new path is empty"},
		{with(func(c *conf.Config) { c.LogFormats = []conf.LogFormat{{Name: "f", Escape: "JSON"}} }),
			`log format "f": invalid Escape "JSON"`},
		{hosts(conf.Host{Pos: "nginx.conf:3", ClientCerts: &conf.ClientCerts{Mode: "on"}}),
			`nginx.conf:3: client certificates: invalid Mode "on"`},
		{maps(conf.Map{Name: "m"}, conf.Map{Name: "M"}), "duplicate map $m"},
		{maps(conf.Map{Name: "m", Source: "$n"}, conf.Map{Name: "n", Source: "x", Default: "$m"}), "depends on itself"},
		{maps(conf.Map{Name: "m", Source: "$none"}), "map $m: unknown variable $none"},
		{maps(conf.Map{Name: "secure_link_expires", Source: "$uri"}), "$secure_link_expires cannot be set"},
		{maps(split(conf.Case{From: "60%", To: "a"}, conf.Case{From: "41%", To: "b"})), "more than 100"},
		{maps(split(conf.Case{From: "6.123%", To: "a"})), "invalid percentage"},
		{maps(conf.Map{Name: "m", Kind: "geo", Cases: []conf.Case{{From: "10.0.0.0/33", To: "a"}}}),
			"neither an address nor a network"},
		{with(func(c *conf.Config) {
			c.Requests = []conf.Zone{{Name: "bad", Key: "$nothing", Rate: 1}}
			c.Hosts[0].Defaults = &conf.Settings{Requests: []conf.RequestLimit{{Zone: "bad"}}}
		}), "$nothing"},
		{upstreams(conf.Upstream{Name: "a", Servers: server}, conf.Upstream{Name: "A", Servers: server}), "duplicate upstream"},
		{upstreams(conf.Upstream{Name: "a", Balance: conf.Balance{Method: "hash"}, Servers: server}), "requires a key"},
		{upstreams(conf.Upstream{Name: "a", Pos: "nginx.conf:7"}), "no servers"},
		{with(func(c *conf.Config) { c.Caches = append(c.Caches, conf.Cache{Name: "one"}) }), `duplicate cache "one"`},
		{with(func(c *conf.Config) {
			c.Caches = []conf.Cache{{Name: "one", Dir: file}, {Name: "two", Dir: file + "/../dir"}}
		}), "same directory"},
		{with(func(c *conf.Config) { c.Caches = nil }), `unknown cache "one"`},
		{with(func(c *conf.Config) { c.Hosts[0].Locations[0].Proxy.Protocol = "fastcgi" }), "missing cache key"},
	} {
		rejects(t, test.c, test.want)
		rejects(t, test.c, "front: ")
	}
}

// Invalid settings of a location are errors with its position.
func TestInvalidSettingsAreRejected(t *testing.T) {
	t.Chdir(t.TempDir()) // of logs
	level := func(n int) *conf.Compression { return &conf.Compression{Level: &n} }
	header := func(name string, value conf.Text) []conf.AddHeader {
		return []conf.AddHeader{{Name: name, Value: value}}
	}
	many := make([]conf.Substitution, 256)
	for i := range many {
		many[i].From = "a"
	}
	for want, all := range map[string][]conf.Settings{
		`"x"`: {{AddAfter: "x"}},
		"add_header": {{Header: header("a b", "")}, {Header: header("", "")}, {Header: header("X", "a\nb")},
			{Header: header("content-length", "1")}, {Header: header("X", "$nothing")}},
		"add_trailer": {{Trailers: header("Content-Length", "1")}, {Trailers: header("Transfer-Encoding", "1")},
			{Trailers: header("a b", "1")}, {Trailers: header("Host", "1")}},
		`auth_request: invalid path "auth"`: {{AuthRequest: &conf.AuthRequest{URI: "auth"}}},
		"variable $uri cannot be set": {{AuthRequest: &conf.AuthRequest{URI: "/a",
			Set: []conf.Set{{Name: "uri", Value: "x"}}}}},
		"auth_request_set $a: unknown variable $nosuch": {{AuthRequest: &conf.AuthRequest{URI: "/a",
			Set: []conf.Set{{Name: "a", Value: "$nosuch"}}}}},
		`autoindex_format: invalid format "yaml"`: {{Files: conf.Files{ListingFormat: "yaml"}}},
		"br: invalid": {{Brotli: level(12)}, {Brotli: level(-1)}}, "zstd": {{Zstd: level(0)}, {Zstd: level(23)}},
		"gzip": {{Gzip: &conf.Gzip{Level: 10}}, {Gzip: &conf.Gzip{Level: -1}}, {Gzip: &conf.Gzip{Proxied: []string{"some"}}},
			{Gzip: &conf.Gzip{Disable: []string{"("}}}},
		"expires": {{Expires: &conf.Expires{Text: ""}}, {Expires: &conf.Expires{Text: "soon"}},
			{Expires: &conf.Expires{Text: "1h1d"}}, {Expires: &conf.Expires{Text: "@25h"}},
			{Expires: &conf.Expires{Text: "@1h", Modified: true}}, {Expires: &conf.Expires{Text: "epoch", Modified: true}},
			{Expires: &conf.Expires{Text: "99999999999y"}}, {Expires: &conf.Expires{Text: "5 5"}},
			{Expires: &conf.Expires{Text: "1d-"}}},
		"limit_req": {{Requests: []conf.RequestLimit{{Zone: "none"}}},
			{Requests: []conf.RequestLimit{{Zone: "z", Burst: -1}}}},
		"limits: invalid status 200": {{RequestStatus: 200}},
		"limit_conn":                 {{Conns: []conf.ConnLimit{{Zone: "none", Max: 1}}}, {Conns: []conf.ConnLimit{{Zone: "n"}}}},
		"$nothing":                   {{Rate: "$nothing"}},
		"access_log": {{Logs: []conf.Log{{Path: "/nowhere/at/all"}}}, {Logs: []conf.Log{{Path: "x", Format: "unknown"}}},
			{Logs: []conf.Log{{Path: "syslog:tag=x"}}}, {Logs: []conf.Log{{Path: "/var/$nothing"}}},
			{Logs: []conf.Log{{Path: "memory:1m"}}}, {Logs: []conf.Log{{Path: "x", Format: "broken"}}},
			{Logs: []conf.Log{{Path: "x", Format: "strange"}}}},
		"loud":                       {{ErrorLog: &conf.ErrorLog{Path: "stderr", Level: "loud"}}},
		"want Names or Patterns":     {{Referers: &conf.Referers{None: true}}},
		`invalid name "a*b"`:         {{Referers: &conf.Referers{Names: []string{"a*b/x"}}}},
		"invalid regular expression": {{Referers: &conf.Referers{Names: []string{"~("}}}},
		"valid_refer":                {{Referers: &conf.Referers{Patterns: []string{"("}}}},
		"secure link: want": {{SecureLink: &conf.SecureLink{}}, {SecureLink: &conf.SecureLink{Link: "$arg_a"}},
			{SecureLink: &conf.SecureLink{MD5: "$uri"}}, {SecureLink: &conf.SecureLink{Link: "a", MD5: "b", Secret: "c"}},
			{SecureLink: &conf.SecureLink{Link: "a", Secret: "c"}}, {SecureLink: &conf.SecureLink{MD5: "b", Secret: "c"}}},
		"$nosuch":               {{SecureLink: &conf.SecureLink{Link: "$nosuch", MD5: "a"}}},
		"missing variable name": {{SecureLink: &conf.SecureLink{Link: "a", MD5: "$"}}},
		"empty search":          {{SubFilter: &conf.SubFilter{Substitutions: []conf.Substitution{{From: "a"}, {From: ""}}}}},
		"want at most":          {{SubFilter: &conf.SubFilter{Substitutions: many}}},
		"nosuchvariable": {{SubFilter: &conf.SubFilter{
			Substitutions: []conf.Substitution{{From: "a", To: "$nosuchvariable"}}}}},
		"userid": {{UserID: &conf.UserID{Mode: "yes"}}, {UserID: &conf.UserID{Mode: "on", Name: "a b"}},
			{UserID: &conf.UserID{Mode: "on", Mark: "ab"}}, {UserID: &conf.UserID{Mode: "on", Path: "/a; b"}},
			{UserID: &conf.UserID{Mode: "on", P3P: "a\n"}}},
		`"html" is not absolute`:         {{Files: conf.Files{Root: "html"}}},
		`invalid DisableSymlinks "off"`:  {{Files: conf.Files{DisableSymlinks: "off"}}},
		`invalid BodyFile "yes"`:         {{BodyFile: "yes"}},
		`invalid ModifiedSince "exact"`:  {{ModifiedSince: "exact"}},
		"error page: invalid status 200": {{ErrorPages: []conf.ErrorPage{{Statuses: []int{200}, Target: "/x"}}}},
		"auth_basic":                     {{Password: &conf.Password{Realm: "r"}}},
	} {
		for _, s := range all {
			c := oneHost(conf.Location{Path: "/", Pos: "x.conf:7", Settings: &s})
			c.Requests, c.Conns = []conf.Zone{{Name: "z", Key: "k", Rate: 1}}, []conf.Zone{{Name: "n", Key: "k"}}
			c.LogFormats = []conf.LogFormat{{Name: "broken", Text: "${a"}, {Name: "strange", Text: "$nothing"}}
			rejects(t, c, want)
			rejects(t, c, "x.conf:7: ")
		}
	}
}

// An invalid Proxy is an error of New.
func TestInvalidProxyIsRejected(t *testing.T) {
	uri := conf.Text("/x")
	cache := func(c conf.ProxyCache) *conf.ProxyCache { c.Zone = "one"; return &c }
	header := func(name string, value conf.Text) []conf.Field { return []conf.Field{{Name: name, Value: value}} }
	for _, test := range []struct {
		want string
		p    conf.Proxy
	}{
		{"missing To", conf.Proxy{To: "-"}}, {"invalid protocol", conf.Proxy{Protocol: "ftp"}},
		{"invalid port", conf.Proxy{To: "127.0.0.1:0"}}, {"want 1.0, 1.1 or", conf.Proxy{Version: "3"}},
		{"field name", conf.Proxy{Header: header("a b", "")}}, {"invalid value", conf.Proxy{Header: header("a", "b\r\nc")}},
		{"unknown variable", conf.Proxy{Header: header("a", "$nothing")}},
		{"frames the request", conf.Proxy{Header: header("Transfer-Encoding", "chunked")}},
		{"unsupported status", conf.Proxy{Next: conf.NextUpstream{Statuses: []int{418}}}},
		{"negative", conf.Proxy{ReadTimeout: -1}}, {"cannot be ignored", conf.Proxy{Ignore: []string{"X-Any"}}},
		{"URI requires HTTP", conf.Proxy{Protocol: "fastcgi", URI: &uri}},
		{"two groups", conf.Proxy{Protocol: "fastcgi", SplitPath: "^(.*)$"}}, {"invalid method", conf.Proxy{Method: "A B"}},
		{"requires HTTPS", conf.Proxy{TLS: conf.ProxyTLS{SNI: true}}}, {"require FastCGI", conf.Proxy{ParamIndex: "x"}},
		{"Version requires HTTP", conf.Proxy{Protocol: "fastcgi", Version: "1.1"}},
		{"cannot be set", conf.Proxy{Redirects: []conf.Replace{{From: "~(?P<host>.)", To: "y"}}}},
		{"$nothing", conf.Proxy{Cache: cache(conf.ProxyCache{Key: "$nothing"})}},
		{"$nothing", conf.Proxy{Cache: cache(conf.ProxyCache{Skip: []conf.Text{"$nothing"}})}},
	} {
		if test.p.To == "" {
			test.p.To = "127.0.0.1:1"
		}
		c := proxyTo(test.p)
		c.Caches, c.Hosts[0].Locations[0].Pos = []conf.Cache{{Name: "one"}}, "nginx.conf:7"
		if test.p.To == "-" {
			c.Hosts[0].Locations[0].Proxy.To = ""
		}
		rejects(t, c, test.want)
		rejects(t, c, "nginx.conf:7")
	}
}

// Explain runs no handler and connects to no upstream, also for the subrequest of auth_request, and
// its findings follow internal redirects.
func TestExplainRunsNothing(t *testing.T) {
	to := testkit.ServeTCP(t, func(net.Conn) { t.Error("it connects to the upstream") })
	bound := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it calls the handler") })
	c := conf.Config{
		Upstreams: []conf.Upstream{{Name: "users", Servers: []conf.Server{{Addr: to}}}},
		Hosts: []conf.Host{{Pos: "x:1", Names: []string{"a"}, Locations: []conf.Location{
			{Path: "/", Pos: "x:2", Proxy: &conf.Proxy{To: "app"},
				Settings: &conf.Settings{AuthRequest: &conf.AuthRequest{URI: "/auth"}}},
			{Path: "/auth", Match: "=", Pos: "x:3", Proxy: &conf.Proxy{To: "users"}},
			{Path: "/gone", Pos: "x:4", Steps: []conf.Step{conf.Return{Status: 410}},
				Settings: &conf.Settings{
					ErrorPages: []conf.ErrorPage{{Statuses: []int{410}, Target: "/page", Status: 200}},
				}},
		}}},
	}
	explain := func(path string) []front.Finding {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{Port: 80})))
		return testkit.Value(front.Explain(c, r, front.Bind("app", bound)))(t)
	}
	for path, first := range map[string][]front.Finding{
		"/x?y":  nil,
		"/gone": {{"location", "x:4", "location /gone"}, {"rewrite", "", "return 410"}},
	} {
		want := append([]front.Finding{{"server", "x:1", "server_name a (default server of the address)"}}, first...)
		testkit.Equal(t, explain(path), append(want, []front.Finding{
			{"location", "x:2", "location /"},
			{"subrequest: location", "x:3", "location = /auth"},
			{"subrequest: content", "x:3", "proxy_pass http://users: GET /auth"},
			{"subrequest: upstream", "", "users: " + to},
			{"access", "x:2", "is granted"},
			{"content", "x:2", "proxy_pass http://app: GET " + map[string]string{"/gone": "/page", "/x?y": path}[path]},
			{"upstream", "", "app: a handler of the program"},
		}...))
	}
	testkit.Fails(front.Explain(conf.Config{}, httptest.NewRequest(http.MethodGet, "/", nil)))(t, "no hosts")
}

// Each of these modules is a file: without it and its row the front compiles. Their packages do not
// import each other, so a module of each is removed at the same time.
func TestModulesAreRemovable(t *testing.T) {
	testkit.NoRace(t, "it only compiles")
	here, without := testkit.Value(os.Getwd())(t), filepath.Join(t.TempDir(), "modules.go")
	for _, removed := range []map[string]string{
		{"proxy.MirrorModule": "proxy/mirror.go", "clients.UserIDModule": "clients/userid.go",
			"guard.RefererModule": "guard/referers.go", "transform.CharsetModule": "transform/charset.go"},
		{"proxy.SliceModule": "proxy/slice.go", "clients.GeoModule": "clients/geo.go",
			"guard.SecureLinkModule": "guard/securelink.go", "transform.SubFilterModule": "transform/subfilter.go"},
		{"clients.SplitClientsModule": "clients/splitclients.go", "transform.AdditionModule": "transform/addition.go"},
	} {
		rows, files := string(testkit.Value(os.ReadFile("modules.go"))(t)), map[string]string{here + "/modules.go": without}
		for row, file := range removed {
			rows = strings.Replace(rows, "\t\t"+row+"(),\n", "", 1)
			files[filepath.Join(here, "internal", file)] = ""
		}
		overlay := filepath.Join(t.TempDir(), "overlay.json")
		testkit.Must(t, os.WriteFile(without, []byte(rows), 0o600))
		testkit.Must(t, os.WriteFile(overlay, testkit.Value(json.Marshal(map[string]any{"Replace": files}))(t), 0o600))
		if out, err := testkit.Command(t, "go", "build", "-overlay", overlay, ".").CombinedOutput(); err != nil {
			t.Errorf("without %v: %v\n%s", removed, err, out)
		}
	}
}
