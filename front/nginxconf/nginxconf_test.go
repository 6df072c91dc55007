package nginxconf

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
	"github.com/tarehq/tare/internal/testkit"
)

// Parse reports all errors at once, in the order of the text.
func TestErrorsNameFileLineAndDirective(t *testing.T) {
	fsys := fstest.MapFS{
		"etc/nginx.conf": {Data: []byte(`worker_processes none;
events { }
nosuch;
http {
	gzip maybe;
	include sites/*;
	gzip on;
	perl_set $a b;
	server {
		listen 80 speed=9;
		location / { proxy_pass a; }
		ssi on;
		charset $a;
	}
	server_name x;
}
`)},
		"etc/sites/a": {Data: []byte("server {\n\tlisten 81;\n\troot;\n")},
		"etc/sites/b": {Data: []byte("server { listen 82; return 1000; }\n")},
	}
	_, err := Parse("/etc/nginx.conf", Options{FS: fsys})
	testkit.Equal(t, fmt.Sprint(err), `/etc/nginx.conf:3: unknown directive "nosuch"
/etc/nginx.conf:5: directive "gzip": invalid value "maybe" (must be on or off)
/etc/sites/a:3: directive "root": no arguments, but 1 required
/etc/sites/a:4: unexpected end of file in a block (missing "}")
/etc/nginx.conf:7: directive "gzip": duplicate (first one at /etc/nginx.conf:5)
/etc/nginx.conf:8: directive "perl_set": not supported: bind a Go handler instead
/etc/nginx.conf:12: directive "ssi": not supported: pages are sent unmodified; bind a Go handler instead
/etc/nginx.conf:15: directive "server_name": not allowed in http (allowed in: server)`)
	delete(fsys, "etc/sites/a")
	_, err = Parse("/etc/nginx.conf", Options{FS: fsys})
	testkit.Equal(t, fmt.Sprint(err), `/etc/nginx.conf:1: directive "worker_processes": invalid number "none" (must be greater than 0, or auto)
/etc/nginx.conf:3: unknown directive "nosuch"
/etc/nginx.conf:5: directive "gzip": invalid value "maybe" (must be on or off)
/etc/sites/b:1: directive "return": invalid status "1000" (must be a number, or a URL with http://, https:// or $scheme)
/etc/nginx.conf:7: directive "gzip": duplicate (first one at /etc/nginx.conf:5)
/etc/nginx.conf:8: directive "perl_set": not supported: bind a Go handler instead
/etc/nginx.conf:10: directive "listen": unknown parameter "speed=9" (must be one of default_server, default, bind, ipv6only=, rcvbuf=, sndbuf=, setfib=, ssl, http2, proxy_protocol, reuseport, backlog=, deferred, multipath, fastopen=, so_keepalive=, accept_filter=)
/etc/nginx.conf:11: directive "proxy_pass": invalid URL "a" (must begin with http:// or https://)
/etc/nginx.conf:12: directive "ssi": not supported: pages are sent unmodified; bind a Go handler instead
/etc/nginx.conf:13: directive "charset": variables are not supported
/etc/nginx.conf:15: directive "server_name": not allowed in http (allowed in: server)`)
}

// An unsupported directive is an error, or left out and listed.
func TestLenientOmitsUnsupportedDirectives(t *testing.T) {
	text := inHTTP("ssi on;\nlua_shared_dict a 1m;\nupstream u { server 127.0.0.1; sticky learn create=$a; }\n" +
		"proxy_cache_path /c keys_zone=c:1m; proxy_cache c; proxy_cache_methods POST;\n" +
		"server { listen 80;\nlocation / { access_log /l; access_log /z combined gzip; error_log memory:1m; content_by_lua_block { if a then b = {} end }\n} }")
	_, err := parse(text, Options{})
	testkit.Equal(t, len(errorsOf(t, err)), 7, "errors", err)
	r := parsed(t, text, Options{Lenient: true})
	var ignored []string
	for _, m := range r.Ignored {
		ignored = append(ignored, fmt.Sprintf("%d %s", m.Line, m.Directive))
	}
	testkit.Equal(t, ignored, []string{"3 ssi", "4 lua_shared_dict", "5 sticky", "6 proxy_cache_methods", "8 access_log",
		"8 error_log", "8 content_by_lua_block"})
	if logs := r.Config.Hosts[0].Locations[0].Settings.Logs; len(logs) != 1 || logs[0].Path != "/l" {
		t.Errorf("got logs %v; want the supported one", logs)
	}
	testkit.Fails(parse("events {} nosuch;", Options{Lenient: true}))(t, "nosuch")
}

// A rejected directive that guards access closes its block, and nothing inside opens it again.
func TestLenientRejectedGuardCannotBeReopened(t *testing.T) {
	text := inHTTP(`server { auth_jwt "outer"; satisfy any; location / { allow all; empty_gif; }
		location /own { auth_jwt "realm"; auth_request /ask; empty_gif; }
		location /open { auth_jwt off; empty_gif; location /open/too { empty_gif; } } }
		server { server_name other; auth_jwt "outer"; return 200; }`)
	for path, want := range map[string]int{"http://x/": 503, "http://x/own": 503, "http://x/open": 200,
		"http://x/open/too": 200, "http://other/": 503} {
		testkit.Equal(t, statusOf(t, text, path), want, path)
	}
}

// Unavailable variables are empty in logs and header fields.
func TestLenientEmptiesUnavailableVariables(t *testing.T) {
	text := inHTTP(`log_format a "$tcpinfo_rtt"; server { access_log x a; add_header A "a$pipe${upstream_trailer_x}b"; location / { proxy_set_header B $SSL_curves; proxy_pass http://127.0.0.1:1; } }`)
	testkit.Fails(parse(text, Options{}))(t, `directive "log_format": variable $tcpinfo_rtt is not available`)
	r := parsed(t, text, Options{Lenient: true})
	testkit.Equal(t, []int{len(r.Ignored), len(r.Config.Blank)}, []int{3, 3}, "directives and variables")
	_, unread := io.Pipe()
	h, err := front.New(r.Config, front.OpenLogs(func(string) (io.WriteCloser, error) { return unread, nil }))
	testkit.Must(t, err)
	testkit.Check(t, h.Close())
}

// Invalid directives that nginx does not have, or not here, are errors.
func TestInvalidOwnDirectivesAreErrors(t *testing.T) {
	const (
		certs  = " ssl_certificate c; ssl_certificate_key k; location / { empty_gif; } }"
		issued = " ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }"
	)
	for _, c := range []struct{ text, want string }{
		{"server { proxy_cache_purge PURGE from 127.0.0.1; }", "proxy_cache_purge"},
		{"server { proxy_cache_purge one $host; }", "proxy_cache_purge"}, {"server { proxy_cache_purge on; }", "proxy_cache_purge"},
		// servers of other protocols would fail the requests of checks
		{"server { location / { grpc_pass u; health_check; } }", "requires proxy_pass"},
		{"server { location / { fastcgi_pass u; health_check; } }", "requires proxy_pass"},
		{"server { location / { health_check; } }", "requires proxy_pass"},
		{"server { location / { proxy_pass http://u; grpc_pass u; } }", "conflicts with proxy_pass"},
		{"server { location / { proxy_pass http://u; health_check port=81-82; } }", "port"},
		{"server { location / { proxy_pass http://u; health_check port=0; } }", "port"},
		{"server { location / { proxy_pass http://u; health_check port; } }", "port"},
		{"server { location / { proxy_pass http://u; health_check fails=0; } }", "fails"},
		{"server { location / { proxy_pass http://u; health_check match=none; } }", "none"},
		{"server { location / { proxy_pass http://u; health_check mandatory=on; } }", "mandatory"},
		{"acme_issuer x { uri https://b.test/; challenge mail; }", "must be one of http-01"},
		{"acme_issuer x { uri https://b.test/; profile a b; }", "TEXT require"},
		{"acme_issuer x { uri https://b.test/; listen 80; }", "not allowed in acme_issuer"},
		{issuerI + "server { acme_certificate i a.test; acme_certificate i b.test;" + issued, "duplicate"},
		{"server { acme_certificate x a.test;" + issued, "unknown issuer"},
		{"server { listen 443 ssl; server_name a.test;" + issued, "requires acme_certificate"},
		{issuerI + "server { listen 443 ssl; acme_certificate i a.test; ssl_certificate $acme_certificate; ssl_certificate_key c.key; }",
			"requires ssl_certificate_key $acme_certificate_key"},
		{"server { listen 443 ssl; ssl_certificate $other; ssl_certificate_key c.key; }", "not supported"},
		{"server { listen 443 quic ssl;" + certs, `parameter "ssl": incompatible with quic`},
		{"server { listen 443 quic http2;" + certs, `parameter "http2": incompatible with quic`},
		{"server { listen unix:/s quic;" + certs, "not supported on unix sockets"},
		{"server { listen 443 quic; ssl_protocols TLSv1.2;" + certs, "listen with quic requires TLSv1.3"},
		{"server { listen 443 quic; http3_hq on;" + certs, "interoperability"},
		{"server { listen 443 quic; listen 443 quic;" + certs, "duplicate address quic:*:443"},
		{"server { listen 443 quic; quic_retry maybe;" + certs, "quic_retry"},
		{"server { listen 443 quic; http3_stream_buffer_size x;" + certs, "http3_stream_buffer_size"},
	} {
		text := inHTTP("upstream u { server 127.0.0.1:1; }\n" + c.text)
		testkit.Fails(parse(text, Options{HTTP3: true}))(t, c.want, c.text)
	}
}

func TestIncludes(t *testing.T) {
	r, err := Parse("conf/nginx.conf", Options{DefaultPort: 80, FS: fstest.MapFS{
		"conf/nginx.conf":    {Data: []byte("events {} http { include sites/*.conf; include /abs/x; include none*; }")},
		"conf/sites/b.conf":  {Data: []byte("server { server_name b; }")},
		"conf/sites/a.conf":  {Data: []byte("server { server_name a; include part; }")},
		"conf/sites/.c.conf": {Data: []byte("nosuch;")}, "conf/sites/d": {Data: []byte("nosuch;")},
		"conf/part": {Data: []byte("location /p { }")},
		"abs/x":     {Data: []byte("server { server_name x; }")},
	}})
	testkit.Must(t, err)
	var names []string
	for _, h := range r.Config.Hosts {
		names = append(names, h.Names[0]+" "+h.Pos)
	}
	want := []string{"a conf/sites/a.conf:1:1", "b conf/sites/b.conf:1:1", "x /abs/x:1:1"}
	testkit.Equal(t, names, want)
	testkit.Equal(t, at(t, r, "/p").Pos, "conf/part:1:1", "position of /p")
}

func TestIncludesAreLimited(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"itself": {"nginx.conf": {Data: []byte("include nginx.conf;")}},
		"twice": {"nginx.conf": {Data: []byte("include a; include a;")},
			"a": {Data: []byte("include nginx.conf; include nginx.conf;")}},
		"pattern": {"nginx.conf": {Data: []byte("include *;")}, "a": {Data: []byte("include *;")}},
		"deep":    {"nginx.conf": {Data: []byte(strings.Repeat("a {", 1000) + strings.Repeat("}", 1000))}},
	} {
		testkit.Fails(Parse("nginx.conf", Options{FS: files}))(t, "", name)
	}
	testkit.Fails(Parse("nosuch.conf", Options{FS: fstest.MapFS{}}))(t, "nosuch.conf")
}

func TestProcessHasItsSettings(t *testing.T) {
	r := parsed(t, `user www-data www; worker_processes 4; worker_rlimit_nofile 1000; pid run/x.pid; error_log logs/e warn; worker_shutdown_timeout 5s;
		events { worker_connections 7; }
		http {
			keepalive_timeout 20s;
			server { listen 80; listen 127.0.0.1:81; listen [::]:80 backlog=9; server_name a; }
			server { listen *:80 default_server; keepalive_timeout 30s; large_client_header_buffers 2 1k; client_header_timeout 3s; keepalive_requests 4; }
			server { listen 127.0.0.1:80; listen unix:s; keepalive_timeout 0; }
		}`, Options{})
	p := r.Process
	if p.User != "www-data" || p.Group != "www" || p.Workers != 4 || p.Files != 1000 || p.PID != "/srv/run/x.pid" ||
		r.Config.ShutdownTimeout != 5*time.Second ||
		r.Config.ErrorLog == nil || *r.Config.ErrorLog != (conf.ErrorLog{Path: "/srv/logs/e", Level: "warn"}) {
		t.Errorf("%+v", p)
	}
	var got []string
	for _, l := range p.Listeners {
		got = append(got, fmt.Sprint(l.Addr, " ", l.IdleTimeout, " ", l.HeaderTimeout, " ", l.HeaderBytes, " ",
			l.Backlog, " ", l.IPv6Only))
	}
	want := []string{
		"*:80 30s 3s 2048 0 false", "127.0.0.1:81 20s 1m0s 32768 0 false", "[::]:80 20s 1m0s 32768 9 true",
		"127.0.0.1:80 0s 1m0s 32768 0 false", "unix:/srv/s 0s 1m0s 32768 0 false",
	}
	testkit.Equal(t, got, want)
}

// Depending on the directive, a time of 0 means the minimum or no limit.
func TestTimesOfZero(t *testing.T) {
	r := parsed(t, `worker_shutdown_timeout 0; events {} http { server { proxy_read_timeout 0; keepalive_timeout 0; proxy_next_upstream_timeout 0; location / { proxy_pass http://a:1; } } }`, Options{})
	p := at(t, r, "/").Proxy
	if r.Config.ShutdownTimeout != 0 || r.Process.Listeners[0].IdleTimeout != 0 || p.Next.For != 0 ||
		p.ReadTimeout != 1 {
		t.Errorf("%+v %+v", r.Process, p)
	}
}

func TestServersAtAnAddressShareItsSettings(t *testing.T) {
	r := parsed(t, inHTTP(
		`error_page 404 @a; server { listen 1.2.3.4:443; server_name a; ssl_certificate a.pem; ssl_certificate_key a.key; }
		server { listen 1.2.3.4:443 ssl http2 reuseport; server_name b; ssl_certificate b.pem; ssl_certificate_key k/b.key; server_name a;
			location @a { try_files /a @b; } }`), Options{})
	for i, cert := range []string{"a.pem", "b.pem"} {
		if l := r.Config.Hosts[i].Listen[0]; !l.TLS || !l.HTTP2 || !l.ReusePort || len(l.Certs) != 1 ||
			l.Certs[0].Cert != cert {
			t.Errorf("host %d listens at %+v", i, l)
		}
	}
	if len(r.Warnings) != 3 || !strings.Contains(r.Warnings[0].Text, "@a") || r.Warnings[1].Line != 4 ||
		!strings.Contains(r.Warnings[2].Text, "@b") {
		t.Errorf("%v; want warnings of @a, of the second server called a, and of location @b", r.Warnings)
	}
}

func TestServersHaveDefaults(t *testing.T) {
	r := parsed(t, inHTTP(`server { try_files $uri /x; location = /y { } }`), Options{})
	h := r.Config.Hosts[0]
	if len(h.Listen) != 1 || h.Listen[0].Addr != "*:80" || !slices.Equal(h.Names, []string{""}) ||
		h.Defaults.Files.Root != "/srv/html" {
		t.Errorf("%+v", h)
	}
	if l := at(t, r, "/"); len(l.TryFiles) != 2 || l.Settings.Files.Root != "/srv/html" {
		t.Errorf("outside of locations: %+v", l)
	}
}

// The write-ups' nginx configurations are accepted unmodified.
func TestRecipesAreAccepted(t *testing.T) {
	for _, recipe := range []string{"a", "b"} {
		fsys := fstest.MapFS{}
		for _, name := range []string{"nginx.conf", "sites-enabled/go.conf"} {
			b := testkit.Value(os.ReadFile(filepath.Join("testdata", "recipes", recipe, name)))(t)
			fsys["etc/nginx/"+name] = &fstest.MapFile{Data: b}
		}
		fsys["etc/nginx/mime.types"] = &fstest.MapFile{Data: []byte("types { text/html html htm; text/css css; }")}
		fsys["etc/nginx/fastcgi_params"] = &fstest.MapFile{Data: []byte(
			"fastcgi_param QUERY_STRING $query_string;\nfastcgi_param HTTPS $https if_not_empty;")}
		r := testkit.Value(Parse("/etc/nginx/nginx.conf", Options{FS: fsys}))(t)
		if len(r.Warnings)+len(r.Ignored) != 0 || len(r.Config.Hosts) != 3 {
			t.Errorf("recipe %s: %v, %v, %d hosts", recipe, r.Warnings, r.Ignored, len(r.Config.Hosts))
		}
	}
}

// The lines of a field value are joined, also in a map.
func TestLinesOfFieldValueAreJoined(t *testing.T) {
	text := inHTTP(`map $uri $m { default "a 'self';
		b x;
	"; }
	server { add_header A "default-src 'self';` + "\r\n" + `    script-src $scheme;
	"; add_header M $m; location / { proxy_set_header A "a
 b"; return 200 x; } }`)
	r := parsed(t, text, Options{})
	header := respond(t, r.Config, "http://x/").Header()
	testkit.Fields(t, header, "", "A", "default-src 'self'; script-src http;", "M", "a 'self';\t\tb x;")
	notes := 0
	for _, m := range r.Notes {
		if m.Directive == "add_header" || m.Directive == "proxy_set_header" {
			notes++
		}
	}
	testkit.Equal(t, notes, 2, r.Notes)
}

// With zero requests or a zero timeout, each connection serves one request.
func TestZeroKeepaliveDisablesReuse(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "keepalive_requests 5;": 5, "keepalive_requests 0;": 1, "keepalive_timeout 0;": 1,
		"keepalive_timeout 0s;":  1,
		"keepalive_timeout 1ms;": 0, "keepalive_timeout 0; keepalive_requests 5;": 1,
		"keepalive_requests 0; keepalive_timeout 1m;": 1,
	} {
		r := parsed(t, fmt.Sprintf("events {} http { keepalive_timeout 0; keepalive_requests 0; upstream u { server 127.0.0.1:1; keepalive 2; %s } server { location / { proxy_pass http://u; } } }", text), Options{})
		testkit.Equal(t, r.Config.Upstreams[0].KeepaliveRequests, want, text)
	}
}

// words returns words as they are written.
func words() []string {
	return []string{
		`a`, `"a b"`, `'a b'`, `"a;b{c}d#e"`, `a"b`, `a'b"c`, `"a'b"`, `'a"b'`, `a\ b`, `a\;b`, `a\{b`, `a\"b`, `a\'b`,
		`a\\b`, `a\tb`, `a\rb`, `"a\"b"`, `'a\'b'`, `"a\\"`, `"a\tb"`, `"a\zb"`, `a\zb`, `\a`, `\"a`, `\#a`, `a#b`,
		`${a}b`, `a${b}c`, `$a`, `a}b`, `a$`, `"${a b}"`, `${{a}}`, `a,b`, `(a)`, `ä`, `\\`, `\\\\`, `\\t`, `"$a{b"`, `a\`,
	}
}

func TestStatementsAreSplit(t *testing.T) {
	text := "a b;\n# no\n\tc 'd\ne' {\r\n}f{}g \"\";if ($a = \"b\"){h;}"
	tree, errs, err := syntax.Parse("nginx.conf", &syntax.Source{FS: oneFile(text)}, nil)
	if errs != nil || err != nil {
		t.Fatal(errs, err)
	}
	var b strings.Builder
	for _, d := range tree {
		fmt.Fprintf(&b, "%q %q %d:%d %d\n", d.Name, d.Args, d.Pos.Line, d.Pos.Column, len(d.Block))
	}
	testkit.Equal(t, b.String(), `"a" ["b"] 1:1 0
"c" ["d\ne"] 3:2 0
"f" [] 5:2 0
"g" [""] 5:5 0
"if" ["($a" "=" "b" ")"] 5:10 1
`)
}

// Any input is parsed in limited time and memory, and all messages refer to places in it.
func FuzzParse(f *testing.F) {
	for _, written := range words() {
		f.Add("events {} " + written + " ;")
	}
	f.Add("events {} http { server { listen 80; location / { return 200 'a'; } } }")
	f.Add("http { upstream a { server b; } map $a $b { default c; ~d e; } geo $f { 10.0.0.0/8 g; } split_clients $h $i { 5% j; * k; } }")
	f.Add("http { server { location ~ x { proxy_pass http://$a/b; proxy_redirect default; if ($a ~ b) { set $c d; } } } }")
	f.Add("include nginx.conf; include *; include [; a { include nginx.conf; }")
	f.Add("content_by_lua_block { a = '}' }")
	f.Add(strings.Repeat("a {", 200))
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<13 {
			return
		}
		fsys := oneFile(text)
		result, err := Parse("nginx.conf", Options{FS: fsys, Lenient: true, DefaultPort: 80})
		lines := strings.Count(text, "\n") + 1
		for _, m := range messages(t, result, err) {
			if m.File == "nginx.conf" && (m.Line < 1 || m.Line > lines || m.Column < 0 || m.Column > len(text)+1) {
				t.Errorf("%q: %v is at line %d, column %d", text, m, m.Line, m.Column)
			}
		}
	})
}

func oneFile(text string) fs.FS { return fstest.MapFS{"nginx.conf": {Data: []byte(text)}} }

// messages returns all messages of Parse.
func messages(t *testing.T, r *Result, err error) []Message {
	t.Helper()
	all := errorsOf(t, err)
	if r != nil {
		all = append(append(append(all, r.Ignored...), r.Notes...), r.Warnings...)
	}
	return all
}

func errorsOf(t *testing.T, err error) []Message {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v: want joined errors", err)
	}
	var all []Message
	for _, e := range joined.Unwrap() {
		m, ok := e.(Message) //nolint:errorlint // Parse joins Messages
		if !ok {
			t.Fatalf("%v: want a Message", e)
		}
		all = append(all, m)
	}
	return all
}

// parse parses a configuration.
func parse(text string, o Options) (*Result, error) {
	o.FS, o.Prefix, o.DefaultPort = oneFile(text), "/srv", 80
	return Parse("nginx.conf", o)
}

// parsed parses a valid configuration.
func parsed(t *testing.T, text string, o Options) *Result {
	t.Helper()
	r, err := parse(text, o)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return r
}

// respond returns the response to a GET of a configuration.
func respond(t *testing.T, c conf.Config, url string) *httptest.ResponseRecorder {
	t.Helper()
	h := testkit.Value(front.New(c))(t)
	defer func() { _ = h.Close() }()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", url, nil))
	return w
}

// inHTTP returns a configuration with text in its http block.
func inHTTP(text string) string { return "events {}\nhttp {\n" + text + "\n}" }

// tlsSummary is the comparable part of a tls.Config.
type tlsSummary struct {
	Min, Max              uint16
	Suites                []uint16
	Curves                []tls.CurveID
	Auth                  tls.ClientAuthType
	NoTickets, Insecure   bool
	Clients, Roots, Depth bool
	Certificates          int
}

func summary(c *tls.Config) any {
	if c == nil {
		return nil
	}
	return tlsSummary{
		Min: c.MinVersion, Max: c.MaxVersion, Suites: c.CipherSuites, Curves: c.CurvePreferences, Auth: c.ClientAuth,
		NoTickets: c.SessionTicketsDisabled, Insecure: c.InsecureSkipVerify, Clients: c.ClientCAs != nil,
		Roots: c.RootCAs != nil,
		Depth: c.VerifyConnection != nil, Certificates: len(c.Certificates),
	}
}

// dumped returns a result as text. Equal results have equal texts.
func dumped(t *testing.T, r *Result) string {
	t.Helper()
	var b strings.Builder
	for i := range r.Config.Hosts {
		h := &r.Config.Hosts[i]
		h.Pos = ""
		for j := range h.Listen {
			fmt.Fprintf(&b, "%+v\n", summary(h.Listen[j].TLSConfig))
			h.Listen[j].TLSConfig = nil
		}
		for j := range h.Locations {
			l := &h.Locations[j]
			l.Pos = ""
			if l.Proxy != nil {
				fmt.Fprintf(&b, "%+v\n", summary(l.Proxy.TLS.Config))
				l.Proxy.TLS.Config = nil
			}
		}
	}
	for i := range r.Config.Upstreams {
		r.Config.Upstreams[i].Pos = ""
	}
	for i := range r.Process.Listeners {
		r.Process.Listeners[i].TLSConfig = nil
	}
	text := testkit.Value(json.MarshalIndent([]any{r.Config, r.Process}, "", " "))(t)
	return b.String() + string(text)
}
