package nginxconf

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// verdict is which of nginx and Parse accept a configuration.
type verdict int

const (
	both     verdict = iota // nginx and Parse accept it
	neither                 // nginx and Parse reject it
	stricter                // nginx accepts it, and Parse rejects it on purpose
	laxer                   // nginx rejects it, and Parse accepts it on purpose
)

// aCase is a piece of configuration with its verdict.
type aCase struct {
	level   string // the block around it: "", http, server, location, upstream
	verdict verdict
	text    string
	why     string // for stricter or laxer
}

// wrapped returns a whole configuration with the case. nginx must not use the machine's own
// folders.
func (c aCase) wrapped(dir string) string {
	text := c.text
	switch c.level {
	case "upstream":
		text = "upstream u {" + text + "\n}"
	case "server":
		text = "server { listen unix:" + dir + "/s;" + text + "\n}"
	case "location":
		text = "server { listen unix:" + dir + "/s; location /x/ {" + text + "\n} }"
	}
	if c.level != "" {
		text = "events {}\nhttp { @http " + text + "\n}"
	}
	preamble := "access_log off; default_type text/plain;"
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		preamble += " " + name + "_temp_path " + dir + "/" + name + ";"
	}
	return strings.NewReplacer("@http", preamble, "@cert", "ssl_certificate "+dir+"/c.pem; ssl_certificate_key "+dir+
		"/c.key;", "@dir", dir).Replace(text)
}

// tried returns nginx's messages about a configuration, and an error if nginx rejects it.
func tried(t *testing.T, tool *contender.NginxTool, dir, conf string) (output string, err error) {
	cmd := testkit.Command(t, tool.Bin, "-t", "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"), "-g",
		"pid "+dir+"/pid;")
	cmd.Env = slices.Concat(os.Environ(), tool.Env)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	return stderr.String(), err
}

func TestParseAcceptsWhatNginxAccepts(t *testing.T) {
	tool := programs.Nginx(t)
	dir := t.TempDir()
	writeAll(t, dir)
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: []string{"a"}})
	for name, b := range map[string][]byte{"c.pem": cert, "c.key": key} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	for _, c := range slices.Concat(lexerCases(), directiveCases(), routingCases(), dataCases(), upstreamCases(),
		listenCases(), unusedCases()) {
		conf := filepath.Join(dir, "nginx.conf")
		testkit.Must(t, os.WriteFile(conf, []byte(c.wrapped(dir)), 0o600))
		output, theirs := tried(t, tool, dir, conf)
		_, ours := Parse(conf, Options{Prefix: dir})
		if want := c.verdict == both || c.verdict == stricter; (theirs == nil) != want {
			t.Errorf("%s %q: nginx reports %s; accepted: %v, want %v", c.level, c.text, output, theirs == nil, want)
		}
		if want := c.verdict == both || c.verdict == laxer; (ours == nil) != want {
			t.Errorf("%s %q: %v; want accepted: %v", c.level, c.text, ours, want)
		}
		if (c.verdict == stricter || c.verdict == laxer) != (c.why != "") {
			t.Errorf("%s %q: missing or superfluous reason", c.level, c.text)
		}
	}
}

// nginx's error for an unknown directive contains its name as the lexer read it.
func TestLexerReadsWordsAsNginx(t *testing.T) {
	tool := programs.Nginx(t)
	dir := t.TempDir()
	for written, want := range words() {
		conf := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(conf, []byte(written+" ;"), 0o600); err != nil {
			t.Fatal(err)
		}
		output, _ := tried(t, tool, dir, conf) // it always fails
		if !strings.Contains(output, fmt.Sprintf("unknown directive \"%s\" in", want)) {
			t.Errorf("%s: want %q; nginx reports %s", written, want, output)
		}
	}
}

// writeAll writes the files that the cases include.
func writeAll(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string]string{
		"some/a.conf": "gzip on;", "some/b.conf": "gzip_vary on;", "some/.c.conf": "nosuch;", "brace.conf": "}",
		"open.conf":    "types {",
		"unended.conf": "gzip on", "empty.conf": "", "types.conf": "text/html html;", "cased.conf": "a 1; b 2;",
		"loop.conf": "include loop.conf;",
	} {
		name = filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

// lexerCases cover words, quotes, escapes, comments and ends.
func lexerCases() []aCase {
	long := strings.Repeat("x", 4000)
	return []aCase{
		{"", both, "events {}", ""},
		{"", both, "events{}", ""},
		{"", both, "\t events\r\n{ }\n\n", ""},
		{"", both, "events {} # end", ""},
		{"", both, "# nothing\nevents {} # no newline", ""},
		{"", both, "events { # inside }\n }", ""},
		{"", neither, "events# is not a comment\n {}", ""},
		{"", neither, "events# {}", ""},
		{"", neither, "#", ""},
		{"", neither, "", ""},
		{"", neither, "events {", ""},
		{"", neither, "events {} }", ""},
		{"", neither, "events { }; ", ""},
		{"", neither, "; events {}", ""},
		{"", neither, "{ } events {}", ""},
		{"", neither, "events {} worker_processes 1", ""},
		{"", neither, "events {} worker_processes 1 }", ""},
		{"", neither, "events { worker_connections 10 }", ""},
		{"", neither, "events;", ""},
		{"", neither, "events {} worker_processes {}", ""},
		{"", both, "\"events\" {}", ""},
		{"", both, "'events'{}", ""},
		{"", neither, "eve\\nts {}", ""},
		{"", neither, "ev\"ents\" {}", ""},
		{"", neither, "\"events\"x {}", ""},
		{"", neither, "\"events {}", ""},
		{"", neither, "'events {}", ""},
		{"", neither, "\xef\xbb\xbfevents {}", ""},
		{"", neither, "events {}\x00", ""},
		{"", both, "events {} worker_processes \"1\";", ""},
		{"", both, "events {} worker_processes '1';", ""},
		{"", neither, "events {} worker_processes \"1\"2;", ""},
		{"", neither, "events {} worker_processes \"1\"#;\n;", ""},
		{"", neither, "events {} worker_processes \"1\"}", ""},
		{"", neither, "events {} worker_processes \"1", ""},
		{"", neither, "events {} worker_processes \"1\"", ""},
		{"", both, "events {} env a;env b;", ""},
		{"", neither, "events {} env a{;", ""},
		{"", both, "events {} env a\\;b;", ""},
		{"", both, "events {} env a\\ b;", ""},
		{"", both, "events {} env a\\{;", ""},
		{"", both, "events {} env \\#;", ""},
		{"", both, "events {} env a#b;", ""},
		{"", neither, "events {} env #b;", ""},
		{"", both, "events {} env a\"b;", ""},
		{"", both, "events {} env a'b;", ""},
		{"", both, "events {} env \"a'b\";", ""},
		{"", both, "events {} env 'a\"b';", ""},
		{"", both, "events {} env \"a\\\"b\";", ""},
		{"", both, "events {} env \"a;b\";", ""},
		{"", both, "events {} env \"a{b\";", ""},
		{"", both, "events {} env \"a}b\";", ""},
		{"", both, "events {} env \"a\nb\";", ""},
		{"", both, "events {} env a}b;", ""},
		{"", neither, "events {} env a }b;", ""},
		{"", both, "events {} env ${a};", ""},
		{"", both, "events {} env ${{a};", ""},
		{"", neither, "events {} env $a{;", ""},
		{"", both, "events {} env \\\\;", ""},
		{"", neither, "events {} env \\", ""},
		{"", neither, "events {} env \"a\\", ""},
		{"", neither, "events {} env a\\", ""},
		{"", both, "events {} env \"\";", ""},
		{"", both, "events {} env " + long + ";", ""},
		{"", neither, "events {} env " + long + long + ";", ""},
		{"", neither, "events {} env \"" + long + long + "\";", ""},
	}
}

// dataCases cover maps, zones, caches and their uses.
func dataCases() []aCase {
	return []aCase{
		{"http", both, "map $host $a { default x; a b; *.c d; ~e f; ~*^g$ $host; \\default i; hostnames; volatile; }", ""},
		{"http", both, "map $host$uri $a { include cased.conf; \"\" x; \"a b\" \"$host-$uri\"; }", ""},
		{"http", both, "map $host $a { }", ""},
		{"http", neither, "map $host { }", ""},
		{"http", neither, "map $host a { }", ""},
		{"http", neither, "map $host $a { a; }", ""},
		{"http", neither, "map $host $a { a b c; }", ""},
		{"http", neither, "map $host $a { a b; a c; }", ""},
		{"http", neither, "map $host $a { a b; A c; }", ""},
		{"http", neither, "map $host $a { default b; default c; }", ""},
		{"http", neither, "map $host $a { a { } }", ""},
		{"http", neither, "map $host $a { a $; }", ""},
		{"http", neither, "map $host $a;", ""},
		{"http", both, "geo $a { default x; 10.0.0.0/8 y; 10.0.0.1 z; ::1/128 w; delete 10.0.0.1; }", ""},
		{"http", both, "geo $remote_addr $a { 10.0.0.0/8 y; 10.0.0.0/8 z; }", ""},
		{"http", stricter, "geo $a { ranges; 10.0.0.0-10.0.0.9 x; }", "not supported"},
		{"http", neither, "geo $a { 10.0.0.0/33 x; }", ""},
		{"http", neither, "geo $a { x y; }", ""},
		{"http", neither, "geo $a { 10.0.0.0/8; }", ""},
		{"http", neither, "geo a { }", ""},
		{"http", both, "geo $a { proxy 10.0.0.1; proxy 10.0.0.0/8; proxy_recursive; ::1/128 x; }", ""},
		{"http", neither, "geo $a { proxy x; }", ""},
		{"http", both, "split_clients $host $a { 0.5% a; 99.5% b; }", ""},
		{"http", both, "split_clients $host $a { 20% a; * b; }", ""},
		{"http", neither, "split_clients $host $a { 60% a; 60% b; }", ""},
		{"http", neither, "split_clients $host $a { 0.555% a; }", ""},
		{"http", neither, "split_clients $host $a { 0% a; }", ""},
		{"http", neither, "split_clients $host $a { 5 a; }", ""},
		{"http", stricter, "split_clients $host $a { 5% a b; }", "nginx leaves out what is behind the value"},
		{"http", both, "limit_req_zone $host zone=a:1m rate=1r/s; server { limit_req zone=a burst=5 nodelay; limit_req_status 429; limit_req_dry_run on; }", ""},
		{"http", both, "limit_req_zone $host zone=a:1m rate=30r/m; limit_req zone=a burst=5 delay=2;", ""},
		{"http", neither, "limit_req_zone $host zone=a:1m;", ""},
		{"http", stricter, "limit_req_zone $host zone=a:1m rate=1;", "a unit is missing"},
		{"http", neither, "limit_req_zone $host zone=a:1m rate=0r/s;", ""},
		{"http", neither, "limit_req_zone $host zone=a:1k rate=1r/s;", ""},
		{"http", neither, "limit_req_zone $host zone=a rate=1r/s;", ""},
		{"http", neither, "limit_req_zone $host zone=a:1m rate=1r/s; limit_req_zone $host zone=a:1m rate=1r/s;", ""},
		{"http", neither, "limit_req zone=nosuch;", ""},
		{"http", neither, "limit_req burst=5;", ""},
		{"http", neither, "limit_req_zone $host zone=a:1m rate=1r/s; limit_req zone=a burst=x;", ""},
		{"http", neither, "limit_req_zone $host zone=a:1m rate=1r/s; limit_req zone=a; limit_req zone=a;", ""},
		{"http", neither, "limit_req_status 200;", ""},
		{"http", both, "limit_conn_zone $host zone=a:1m; limit_conn a 5; limit_conn_status 429;", ""},
		{"http", neither, "limit_conn_zone $host zone=a:1m; limit_conn a 0;", ""},
		{"http", neither, "limit_conn_zone $host zone=a:1m; limit_conn a;", ""},
		{"http", neither, "limit_conn nosuch 5;", ""},
		{"http", both, "proxy_cache_path @dir/c levels=1:2 keys_zone=c:1m inactive=1h max_size=1g min_free=1m use_temp_path=off; proxy_cache c;", ""},
		{"http", neither, "proxy_cache_path @dir/c;", ""},
		{"http", neither, "proxy_cache_path @dir/c levels=1:2;", ""},
		{"http", neither, "proxy_cache_path @dir/c keys_zone=c;", ""},
		{"http", neither, "proxy_cache_path @dir/c keys_zone=c:1m levels=3;", ""},
		{"http", neither, "proxy_cache_path @dir/c keys_zone=c:1m max_size=x;", ""},
		{"http", neither, "proxy_cache_path @dir/c keys_zone=c:1m nosuch=1;", ""},
		{"http", neither, "proxy_cache_path @dir/c keys_zone=c:1m; proxy_cache_path @dir/d keys_zone=c:1m;", ""},
		{"http", neither, "proxy_cache nosuch;", ""},
		{"http", both, "proxy_cache off; proxy_cache_valid 200 302 10m; proxy_cache_valid any 1m; proxy_cache_valid 1h; proxy_cache_methods POST;", ""},
		{"http", both, "proxy_cache_valid 200;", ""},
		{"http", neither, "proxy_cache_valid some 1m;", ""},
		{"http", neither, "proxy_cache_valid 10 1m;", ""},
		{"http", both, "proxy_cache_use_stale error timeout updating http_500; proxy_cache_lock on; proxy_cache_lock_timeout 5s; proxy_cache_background_update on; proxy_cache_revalidate on; proxy_cache_min_uses 2; proxy_cache_bypass $host $uri; proxy_no_cache $host;", ""},
		{"http", neither, "proxy_cache_use_stale sometimes;", ""},
		{"http", both, "proxy_next_upstream error http_404 non_idempotent; proxy_next_upstream_tries 2; proxy_next_upstream_timeout 1s;", ""},
		{"http", neither, "proxy_next_upstream http_400;", ""},
		{"http", neither, "fastcgi_next_upstream http_502;", ""},
		{"http", both, "proxy_http_version 1.1; proxy_set_header A b; proxy_set_header A \"\"; proxy_hide_header A; proxy_pass_header Server; proxy_ignore_headers Expires x-accel-redirect;", ""},
		{"http", neither, "proxy_http_version 1.2;", ""},
		{"http", neither, "proxy_set_header A;", ""},
		{"http", neither, "proxy_ignore_headers Server;", ""},
		{"http", both, "proxy_redirect off; proxy_cookie_domain a b; proxy_cookie_path ~x(.*) $1; proxy_cookie_flags off;", ""},
		{"http", neither, "proxy_redirect a;", ""},
		{"http", neither, "proxy_cookie_domain a;", ""},
		{"http", both, "proxy_buffering off; proxy_request_buffering off; proxy_buffers 8 4k; proxy_buffer_size 4k; proxy_max_temp_file_size 0; proxy_connect_timeout 1s; proxy_read_timeout 1h;", ""},
		{"http", both, "proxy_method GET; proxy_set_body x; proxy_pass_request_headers off; proxy_pass_request_body off; proxy_intercept_errors on; proxy_ignore_client_abort on;", ""},
		{"http", both, "fastcgi_param A b; fastcgi_param C $host if_not_empty; fastcgi_index index.php; fastcgi_split_path_info ^(.+)(/.*)$; fastcgi_keep_conn on;", ""},
		{"http", neither, "fastcgi_param A;", ""},
		{"http", neither, "fastcgi_param A b c;", ""},
		{"http", both, "uwsgi_param A b; scgi_param A b; uwsgi_read_timeout 1s;", ""},
		{"location", stricter, "uwsgi_pass 127.0.0.1:1;", "not done here"},
		{"location", both, "grpc_pass 127.0.0.1:1; grpc_set_header A b; grpc_read_timeout 1s; grpc_ssl_name a;", ""},
		{"location", both, "grpc_pass grpcs://127.0.0.1:1; grpc_next_upstream error; grpc_hide_header A;", ""},
		{"location", both, "grpc_pass grpc://unix:/a;", ""},
		{"location", both, "set $a b; grpc_pass grpc://$a:1;", ""},
		{"location", neither, "grpc_pass http://127.0.0.1:1;", ""},
		{"location", neither, "grpc_pass grpc://;", ""},
		{"location", neither, "grpc_pass grpc://127.0.0.1:1/a;", ""},
		{"http", both, "ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers HIGH:!aNULL:!MD5; ssl_prefer_server_ciphers on; ssl_session_cache shared:SSL:1m; ssl_session_timeout 1d; ssl_session_tickets off;", ""},
		{"http", neither, "ssl_protocols TLSv2;", ""},
		{"http", neither, "ssl_session_cache big;", ""},
		{"http", stricter, "ssl_protocols SSLv3; server { listen unix:@dir/s; }", "it is not safe"},
	}
}

// upstreamCases cover the contents of upstream blocks.
func upstreamCases() []aCase {
	return []aCase{
		{"upstream", both,
			"server 127.0.0.1:1 weight=2 max_fails=0 fail_timeout=5s max_conns=3 backup; server 127.0.0.1 down;", ""},
		{"upstream", both,
			"server unix:@dir/s; keepalive 8; keepalive_timeout 10s; keepalive_requests 5; keepalive_time 1h;", ""},
		{"upstream", both, "zone z 64k; least_conn; server 127.0.0.1:1;", ""},
		{"upstream", both, "ip_hash; server 127.0.0.1:1;", ""},
		{"upstream", both, "hash $uri consistent; server 127.0.0.1:1;", ""},
		{"upstream", both, "hash $uri; server 127.0.0.1:1;", ""},
		{"upstream", both, "random two least_conn; server 127.0.0.1:1;", ""},
		{"upstream", both, "random; server 127.0.0.1:1;", ""},
		{"upstream", both, "least_conn; ip_hash; server 127.0.0.1:1;", ""},
		{"upstream", neither, "", ""},
		{"upstream", neither, "server;", ""},
		{"upstream", neither, "server 127.0.0.1:x;", ""},
		{"upstream", neither, "server 127.0.0.1:0;", ""},
		{"upstream", neither, "server unix:;", ""},
		{"upstream", neither, "server 127.0.0.1:1 nosuch;", ""},
		{"upstream", neither, "server 127.0.0.1:1 weight=0;", ""},
		{"upstream", neither, "server 127.0.0.1:1 weight=x;", ""},
		{"upstream", neither, "server 127.0.0.1:1 fail_timeout=x;", ""},
		{"upstream", neither, "server 127.0.0.1:1 max_fails=-1;", ""},
		{"upstream", neither, "ip_hash; server 127.0.0.1:1 backup;", ""},
		{"upstream", neither, "hash $uri sometimes; server 127.0.0.1:1;", ""},
		{"upstream", neither, "random three; server 127.0.0.1:1;", ""},
		{"upstream", neither, "keepalive 0; server 127.0.0.1:1;", ""},
		{"upstream", neither, "keepalive x; server 127.0.0.1:1;", ""},
		{"upstream", neither, "gzip on; server 127.0.0.1:1;", ""},
		{"http", neither, "upstream { server 127.0.0.1:1; }", ""},
		{"http", neither, "upstream a { server 127.0.0.1:1; } upstream a { server 127.0.0.1:1; }", ""},
		{"http", both, "upstream a { server 127.0.0.1:1; } server { listen unix:@dir/s; location / { proxy_pass http://a/b; } location /f { fastcgi_pass a; } }", ""},
		{"http", both,
			"server { listen unix:@dir/s; location / { proxy_pass http://a/b; } } upstream a { server 127.0.0.1:1; }", ""},
	}
}
