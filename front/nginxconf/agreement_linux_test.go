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

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/lab/contender"
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
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range slices.Concat(lexerCases(), directiveCases(), routingCases(), dataCases(), upstreamCases(),
		listenCases()) {
		conf := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(conf, []byte(c.wrapped(dir)), 0o600); err != nil {
			t.Fatal(err)
		}
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
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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

// directiveCases cover names, contexts, arguments and units.
func directiveCases() []aCase {
	return []aCase{
		{"", neither, "events {} nosuch;", ""},
		{"", neither, "events {} nosuch {}", ""},
		{"", neither, "events {} gzip on;", ""},
		{"", neither, "events {} events {}", ""},
		{"", neither, "events {} http { @http } http { @http }", ""},
		{"", neither, "events { gzip on; }", ""},
		{"", both, "events { worker_connections 10; multi_accept on; use epoll; accept_mutex off; accept_mutex_delay 1ms; }", ""},
		{"", neither, "events { worker_connections ten; }", ""},
		{"", neither, "events { use nosuch; }", ""},
		{"", both, "events {} worker_processes auto;", ""},
		{"", stricter, "events {} worker_processes 0;", "none would work"},
		{"", neither, "events {} worker_processes none;", ""},
		{"", neither, "events {} worker_processes 1; worker_processes 1;", ""},
		{"", neither, "events {} worker_processes 1 2;", ""},
		{"", neither, "events {} worker_processes;", ""},
		{"", neither, "events {} user;", ""},
		{"", both, "events {} worker_shutdown_timeout 1m; daemon off; master_process off; timer_resolution 100ms; pcre_jit on;", ""},
		{"", neither, "events {} daemon yes;", ""},
		{"", both, "events {} error_log stderr;", ""},
		{"", both, "events {} error_log @dir/e.log info;", ""},
		{"", neither, "events {} error_log @dir/e.log loud;", ""},
		{"", both, "error_log stderr; events {} error_log @dir/e.log warn; error_log @dir/f.log;", ""},
		{"", both, "events {} http { include @dir/none/*; include @dir/none/*.conf; }", ""},
		{"http", both, "error_log @dir/e.log; error_log @dir/f.log crit;", ""},
		{"", both, "events {} include @dir/empty.conf;", ""},
		{"", neither, "events {} include;", ""},
		{"", neither, "events {} include a b;", ""},
		{"", neither, "events {} include nosuch.conf;", ""},
		{"", both, "events {} include nosuch*.conf;", ""},
		{"", both, "events {} include nosuch/*;", ""},
		{"", neither, "events {} include brace.conf;", ""},
		{"", neither, "events {} include open.conf; }", ""},
		{"", neither, "events {} include unended.conf;", ""},
		{"", neither, "events {} include loop.conf;", ""},
		{"", stricter, "events {} debug_points stop;", "there is no such thing"},

		{"http", both, "include some/*;", ""},
		{"http", both, "include some/[ab].conf;", ""},
		{"http", both, "include some/[!b].conf;", ""},
		{"http", both, "include some/?.conf; types { include types.conf; }", ""},
		{"http", neither, "include some/*; include some/a.conf;", ""},
		{"http", both, "gzip ON;", ""},
		{"http", neither, "gzip yes;", ""},
		{"http", neither, "gzip;", ""},
		{"http", neither, "gzip on on;", ""},
		{"http", neither, "gzip on; gzip off;", ""},
		{"http", both, "gzip_comp_level 9; gzip_min_length 1k; gzip_http_version 1.0; gzip_proxied any; gzip_types a/b *; gzip_disable msie6 \"x.*y\"; gzip_buffers 4 8k;", ""},
		{"http", neither, "gzip_comp_level 0;", ""},
		{"http", neither, "gzip_http_version 1.2;", ""},
		{"http", neither, "gzip_proxied some;", ""},
		{"http", both, "client_max_body_size 1g;", ""},
		{"http", both, "client_max_body_size 0;", ""},
		{"http", neither, "client_max_body_size 1t;", ""},
		{"http", neither, "client_max_body_size -1;", ""},
		{"http", neither, "client_max_body_size 1.5m;", ""},
		{"http", neither, "client_max_body_size m;", ""},
		{"http", neither, "client_max_body_size \"\";", ""},
		{"http", neither, "client_max_body_size 99999999999999999999;", ""},
		{"http", neither, "client_max_body_size 9999999999999999g;", ""},
		{"http", both, "client_body_buffer_size 16K;", ""},
		{"http", neither, "client_body_buffer_size 1g;", ""},
		{"http", both, "send_timeout 30;", ""},
		{"http", both, "send_timeout 1h30m;", ""},
		{"http", both, "send_timeout 1h30;", ""},
		{"http", both, "send_timeout \"1h 30m\";", ""},
		{"http", both, "send_timeout 1w2d3h4m5s6ms;", ""},
		{"http", neither, "send_timeout 1m1h;", ""},
		{"http", neither, "send_timeout 1h1h;", ""},
		{"http", neither, "send_timeout 1y;", ""},
		{"http", neither, "send_timeout 1M;", ""},
		{"http", neither, "send_timeout h;", ""},
		{"http", neither, "send_timeout 1x;", ""},
		{"http", neither, "send_timeout \"\";", ""},
		{"http", neither, "send_timeout -1;", ""},
		{"http", neither, "send_timeout 99999999999999999999;", ""},
		{"http", stricter, "send_timeout 1hm;", "a unit without a number is a mistake"},
		{"http", stricter, "send_timeout 1s30;", "seconds are there already"},
		{"http", both, "open_file_cache max=10 inactive=1m; open_file_cache_valid 1y; open_file_cache_min_uses 2; open_file_cache_errors on;", ""},
		{"http", both, "open_file_cache off;", ""},
		{"http", neither, "open_file_cache large;", ""},
		{"http", neither, "open_file_cache max=x;", ""},
		{"http", neither, "open_file_cache_valid 1ms;", ""},
		{"http", both, "sendfile on; tcp_nopush on; tcp_nodelay off; aio threads; directio 4m; output_buffers 2 32k; postpone_output 1460;", ""},
		{"http", neither, "directio large;", ""},
		{"http", neither, "output_buffers 0 32k;", ""},
		{"http", neither, "output_buffers 2;", ""},
		{"http", both, "keepalive_timeout 75s 60s; keepalive_requests 10; keepalive_time 1h; client_header_timeout 10s;", ""},
		{"http", both, "large_client_header_buffers 4 8k; client_header_buffer_size 1k; server_tokens off; underscores_in_headers off; ignore_invalid_headers on;", ""},
		{"http", neither, "server_tokens maybe;", ""},
		{"http", both, "underscores_in_headers on; ignore_invalid_headers off;", ""},
		{"http", both, "expires 30d;", ""},
		{"http", both, "expires -1;", ""},
		{"http", both, "expires modified +24h;", ""},
		{"http", both, "expires @15h30m;", ""},
		{"http", both, "expires epoch;", ""},
		{"http", both, "expires $host;", ""},
		{"http", neither, "expires @25h;", ""},
		{"http", neither, "expires soon;", ""},
		{"http", neither, "expires changed 1h;", ""},
		{"http", both, "add_header A b always; add_header A \"\";", ""},
		{"http", neither, "add_header A;", ""},
		{"http", neither, "add_header A b never;", ""},
		{"http", neither, "add_header A $;", ""},
		{"http", neither, "add_header A ${host;", ""},
		{"http", both, "add_header A ${host}b$uri;", ""},
		{"http", neither, "add_header A a$-b;", ""},
		{"http", both, "index a b $host; index c;", ""},
		{"http", both, "root @dir;", ""},
		{"http", neither, "root @dir; root @dir;", ""},
		{"http", neither, "alias @dir;", ""},
		{"http", both, "types { text/html html htm; text/x; } types { }", ""},
		{"http", neither, "types { text/html html { } }", ""},
		{"http", neither, "types { text/html html }", ""},
		{"http", both, "charset utf-8; charset_types text/plain *; etag off; log_not_found off; merge_slashes off; if_modified_since exact; max_ranges 2;", ""},
		{"http", both, "if_modified_since off;", ""},
		{"http", both, "if_modified_since before;", ""},
		{"http", neither, "if_modified_since after;", ""},
		{"http", both, "limit_rate 10k; limit_rate_after $host;", ""},
		{"http", neither, "limit_rate fast;", ""},
		{"http", both, "satisfy any; allow 10.0.0.0/8; allow ::1; allow unix:; deny all;", ""},
		{"http", neither, "satisfy some;", ""},
		{"http", neither, "allow some;", ""},
		{"http", neither, "allow 10.0.0.0/33;", ""},
		{"http", both, "auth_basic off;", ""},
		{"http", both, "disable_symlinks on;", ""},
		{"http", neither, "disable_symlinks some;", ""},
		{"http", both, "disable_symlinks if_not_owner;", ""},
		{"http", both, "disable_symlinks on from=$document_root;", ""},
		{"http", both, "disable_symlinks from=/srv if_not_owner;", ""},
		{"http", neither, "disable_symlinks off from=/srv;", ""},
		{"http", neither, "disable_symlinks from=/srv;", ""},
		{"http", neither, "disable_symlinks on off;", ""},
		{"http", neither, "disable_symlinks on form=/srv;", ""},
		{"http", both, "set_real_ip_from 10.0.0.0/8; set_real_ip_from unix:; real_ip_header X-Forwarded-For; real_ip_recursive on;", ""},
		{"http", neither, "set_real_ip_from 10.0.0.0/x;", ""},
		{"http", both, "resolver 127.0.0.1 valid=10s; resolver_timeout 1s;", ""},
		{"http", both, "dav_methods off; autoindex on; autoindex_exact_size off; gzip_static on; gunzip off; ssi off; mirror off;", ""},
		{"http", stricter, "dav_methods PUT;", "files are read only"},
		{"http", neither, "dav_methods GET;", ""},
		{"http", both, "chunked_transfer_encoding off;", ""},
		{"http", neither, "chunked_transfer_encoding no;", ""},
		{"http", stricter, "ssi on;", "not done here"},
		{"http", both, "sub_filter a b; sub_filter $host $uri; sub_filter b ''; sub_filter_once OFF; sub_filter_types a/b *; sub_filter_last_modified on;", ""},
		{"http", neither, "sub_filter a;", ""},
		{"http", neither, "sub_filter '' b;", ""},
		{"http", neither, "sub_filter a b c;", ""},
		{"http", neither, "sub_filter a $;", ""},
		{"http", neither, "sub_filter_once no;", ""},
		{"http", neither, "sub_filter_types;", ""},
		{"http", both, "error_page 404 /x; error_page 500 502 =200 /y; error_page 403 = @z; error_page 401 =302 http://a/;", ""},
		{"http", neither, "error_page 404;", ""},
		{"http", neither, "error_page 200 /x;", ""},
		{"http", neither, "error_page 600 /x;", ""},
		{"http", neither, "error_page 499 /x;", ""},
		{"http", neither, "error_page some /x;", ""},
		{"http", neither, "error_page 404 =x /x;", ""},
		{"http", neither, "error_page =200 /x;", ""},
		{"http", both, "log_format f \"$host\" ' $uri'; access_log @dir/l f; ", ""},
		{"http", neither, "log_format f a; log_format f b;", ""},
		{"http", neither, "log_format combined a;", ""},
		{"http", both, "log_format f escape=json a;", ""},
		{"http", both, "log_format f escape=none a;", ""},
		{"http", neither, "log_format f escape=html a;", ""},
		{"http", neither, "log_format f;", ""},
		{"http", neither, "log_format f $;", ""},
	}
}

// routingCases cover servers, locations and their contents.
func routingCases() []aCase {
	return []aCase{
		{"http", both, "server { listen 127.0.0.1:28080; listen 28081; listen *:28082; listen [::1]:28083; listen unix:@dir/u; }", ""},
		{"http", both, "server { listen 127.0.0.1:28080 default_server backlog=10 reuseport; } server { listen 127.0.0.1:28080; }", ""},
		{"http", both, "server { listen [::]:28080 ipv6only=off; }", ""},
		{"http", both, "server { listen 127.0.0.1:28080 ipv6only=on; }", ""},
		{"http", neither, "server { listen 127.0.0.1:28080 nosuch; }", ""},
		{"http", neither, "server { listen 127.0.0.1:28080 backlog=x; }", ""},
		{"http", neither, "server { listen 127.0.0.1:70000; }", ""},
		{"http", neither, "server { listen 127.0.0.1:0; }", ""},
		{"http", neither, "server { listen unix:; }", ""},
		{"http", neither, "server { listen; }", ""},
		{"http", neither, "server { listen localhost:0; }", ""},
		{"http", neither, "server { listen localhost:x; }", ""},
		{"http", neither, "server { listen localhost:28080/x; }", ""},
		{"http", neither, "server { listen localhost:28080; listen 127.0.0.1:28080; }", ""},
		{"http", neither, "server { listen [localhost]:28080; }", ""},
		{"http", neither, "server { listen [127.0.0.1]:28080; }", ""},
		{"http", neither, "server { listen [::1; }", ""},
		{"http", neither, "server { listen ::1; }", ""},
		{"http", neither, "server { listen :28080; }", ""},
		{"http", stricter, "server { listen 127.1:28080; }", "addresses are written out"},
		{"http", neither, "server { listen 28080; listen *:28080; }", ""},
		{"http", neither, "server { listen 28080 default_server; } server { listen 28080 default_server; }", ""},
		{"http", neither, "server { listen 28080 backlog=1; } server { listen 28080 backlog=1; }", ""},
		{"http", both, "server { listen 28080; server_name a; } server { listen 28080; server_name a; }", ""},
		{"http", neither, "server { listen 28080 ssl; }", ""},
		{"http", both, "server { listen 28080 ssl; ssl_reject_handshake on; }", ""},
		{"http", both, "server { listen 28080 proxy_protocol; }", ""},
		{"http", both, "set_real_ip_from 10.0.0.0/8; real_ip_header proxy_protocol; server { listen 28080 proxy_protocol; }", ""},
		{"http", both, "server { listen 28080 so_keepalive=on deferred; }", ""},
		{"http", neither, "server { server { } }", ""},
		{"http", neither, "server;", ""},
		{"http", neither, "server x { }", ""},
		{"http", neither, "location / { }", ""},
		{"http", neither, "listen 28080;", ""},
		{"http", neither, "return 200;", ""},
		{"server", both, "server_name a *.b c.* .d \"\" ~^e(?<x>.)$ _ A a;", ""},
		{"server", stricter, "server_name a*b;", "nginx sees it once there are two servers"},
		{"server", stricter, "server_name *.a.*;", "nginx sees it once there are two servers"},
		{"server", both, "server_name /a;", ""},
		{"server", neither, "server_name;", ""},
		{"server", both, "server_name a *.b; valid_referers none blocked server_names c d/e *.f .g h.* ~i ~j/k /l;", ""},
		{"server", both, "valid_referers none; valid_referers server_names; location / { valid_referers a; }", ""},
		{"server", both, "valid_referers ~a; valid_referers http://a/; referer_hash_max_size 4; referer_hash_bucket_size 64; return 200 $invalid_referer;", ""},
		{"server", both, "set $invalid_referer 1;", ""},
		{"server", neither, "valid_referers none blocked;", ""},
		{"server", neither, "valid_referers none ~a;", ""},
		{"server", neither, "valid_referers none; location / { valid_referers a; }", ""},
		{"server", neither, "server_name ~a; valid_referers none server_names;", ""},
		{"server", neither, "server_name a; valid_referers server_names a;", ""},
		{"server", neither, "valid_referers a; valid_referers A/b;", ""},
		{"server", neither, "valid_referers .a a;", ""},
		{"server", neither, "valid_referers *.a .a;", ""},
		{"server", neither, "valid_referers a.* a.*;", ""},
		{"server", neither, "valid_referers a*b;", ""},
		{"server", neither, "valid_referers *;", ""},
		{"server", neither, "valid_referers *.;", ""},
		{"server", neither, "valid_referers *.a.*;", ""},
		{"server", neither, "valid_referers a..b;", ""},
		{"server", neither, "valid_referers ~;", ""},
		{"server", neither, "valid_referers \"\";", ""},
		{"server", neither, "valid_referers;", ""},
		{"http", neither, "valid_referers a;", ""},
		{"location", neither, "if ($host) { valid_referers a; }", ""},
		{"http", both, "secure_link $arg_a,$arg_b; secure_link_md5 $secure_link_expires$uri;", ""},
		{"http", both, "secure_link_secret x; server { listen unix:@dir/s; secure_link a; location / { secure_link_secret y; location /a { secure_link_md5 $uri; } } }", ""},
		{"location", both, "secure_link_secret $x; return 200 $secure_link$secure_link_expires;", ""},
		{"location", stricter, "secure_link_secret \"\";", "anybody could make links"},
		{"location", neither, "secure_link_secret x; secure_link $arg_a;", ""},
		{"location", neither, "secure_link_secret x; secure_link_md5 $arg_a;", ""},
		{"location", neither, "secure_link $arg_a; secure_link $arg_b;", ""},
		{"location", neither, "secure_link_md5 $;", ""},
		{"location", neither, "secure_link a b;", ""},
		{"location", neither, "if ($host) { secure_link a; }", ""},
		{"server", both, "location / { } location = / { } location ^~ /a { } location ~ a { } location ~* a { } location @a { }", ""},
		{"server", both, "location =/ { } location ^~/a { } location ~a { } location ~*b { }", ""},
		{"server", both, "location ~ a { } location ~ a { }", ""},
		{"server", both, "location a { }", ""},
		{"server", neither, "location / { } location / { }", ""},
		{"server", neither, "location / { } location ^~ / { }", ""},
		{"server", neither, "location = / { } location =/ { }", ""},
		{"server", stricter, "location @a { } location @a { }", "one of them is never found"},
		{"server", neither, "location != / { }", ""},
		{"server", neither, "location { }", ""},
		{"server", neither, "location / a b { }", ""},
		{"server", neither, "location /;", ""},
		{"server", both, "location /a { location /a/b { } location ~ c { } location = /a { } }", ""},
		{"server", neither, "location /a { location /b { } }", ""},
		{"server", neither, "location = /a { location /a { } }", ""},
		{"server", neither, "location @a { location /a { } }", ""},
		{"server", neither, "location /a { location @a { } }", ""},
		{"server", both, "location ~ a { location ~ b { } }", ""},
		{"server", neither, "location ~ a { location /b { } }", ""},
		{"server", both, "try_files $uri /x; location /x { }", ""},
		{"server", neither, "try_files $uri;", ""},
		{"server", both, "return 301 https://$host$request_uri;", ""},
		{"server", both, "return https://$host$request_uri;", ""},
		{"server", both, "return $scheme://$host;", ""},
		{"server", both, "return 204;", ""},
		{"server", neither, "return /x;", ""},
		{"server", neither, "return 1000;", ""},
		{"server", neither, "return 200 a b;", ""},
		{"server", neither, "return 200 $;", ""},
		{"server", both, "rewrite ^/a(.*)$ /b$1 last; rewrite x y break; rewrite x /y redirect; rewrite x https://y permanent; rewrite x y;", ""},
		{"server", neither, "rewrite x y first;", ""},
		{"server", neither, "rewrite x;", ""},
		{"server", both, "set $a b; set $c $a; break;", ""},
		{"server", neither, "set a b;", ""},
		{"server", neither, "set $ b;", ""},
		{"server", neither, "set $a;", ""},
		{"server", both, "if ($host) { return 200; }", ""},
		{"server", both, "if ( $host ) { return 200; }", ""},
		{"server", both, "if ($host = a) { set $b c; rewrite x y; break; }", ""},
		{"server", both, "if ($host != \"a b\") { }", ""},
		{"server", both, "if ($host ~ ^a) { } if ($host ~* \"^(a|b)\") { } if ($host !~ a) { } if ($host !~* a) { }", ""},
		{"server", both, "if (-f $request_filename) { } if (!-d /x) { } if (-e /x) { } if (!-x /x) { }", ""},
		{"server", neither, "if $host { }", ""},
		{"server", neither, "if () { }", ""},
		{"server", neither, "if ( ) { }", ""},
		{"server", neither, "if ($host { }", ""},
		{"server", neither, "if (host) { }", ""},
		{"server", neither, "if ($) { }", ""},
		{"server", neither, "if ($host == a) { }", ""},
		{"server", neither, "if ($host =) { }", ""},
		{"server", neither, "if ($host = a b) { }", ""},
		{"server", neither, "if (-z /x) { }", ""},
		{"server", neither, "if (-f) { }", ""},
		{"server", neither, "if ($host) { if ($uri) { } }", ""},
		{"server", neither, "if ($host) { gzip on; }", ""},
		{"server", neither, "if ($host) { location / { } }", ""},
		{"server", neither, "if ($host) return 200;", ""},
		{"location", both, "if ($host) { return 200; } return 201;", ""},
		{"location", both, "if ($host) { proxy_pass http://127.0.0.1:1; }", ""},
		{"location", neither, "if ($host) { proxy_pass http://127.0.0.1:1/x; }", ""},
		{"location", both, "proxy_pass http://127.0.0.1:1/x; if ($host) { add_header A b; }", ""},
		{"location", both, "if ($host) { add_header A b; return 204; }", ""},
		{"location", both, "limit_except GET POST { deny all; }", ""},
		{"location", neither, "limit_except NOSUCH { deny all; }", ""},
		{"location", both, "limit_except GET { allow 10.0.0.1; deny all; }", ""},
		{"location", both, "limit_except GET { auth_basic a; auth_basic_user_file /dev/null; }", ""},
		{"location", both, "limit_except GET { proxy_pass http://127.0.0.1:1; }", ""},
		{"location", neither, "limit_except GET { proxy_pass http://127.0.0.1:1/x; }", ""},
		{"location", both, "limit_except GET { }", ""},
		{"location", neither, "limit_except GET { gzip on; }", ""},
		{"location", neither, "internal; internal;", ""},
		{"location", both, "internal; alias @dir/; empty_gif;", ""},
		{"location", neither, "alias @dir; root @dir;", ""},
		{"location", neither, "alias @dir; alias @dir;", ""},
		{"location", both, "stub_status;", ""},
		{"location", both, "stub_status on;", ""},
		{"location", stricter, "keepalive_timeout 1s;", "a connection is idle before its next request has a location"},
		{"location", stricter, "auth_basic x;", "nginx lets everybody in"},
		{"location", both, "auth_basic x; auth_basic_user_file users;", ""},
		{"http", both, "auth_request /a; auth_request_set $a $upstream_http_a; add_header A $a;", ""},
		{"server", both, "auth_request off; auth_request_set $a $upstream_http_a; auth_request_set $b $a; auth_request_set $args b;", ""},
		{"location", both, "auth_request /a$uri?b;", ""},
		{"location", both, "auth_request_set $a $status; if ($host) { return 200 $a; }", ""},
		{"location", neither, "auth_request /a; auth_request off;", ""},
		{"location", neither, "auth_request /a b;", ""},
		{"location", neither, "auth_request_set a b;", ""},
		{"location", neither, "auth_request_set $a;", ""},
		{"location", neither, "if ($host) { auth_request /a; }", ""},
		{"location", stricter, "auth_request a;", "no location is found for what is no path"},
		{"location", stricter, "auth_request @a;", "no location is found for what is no path"},
		{"location", neither, "server_name a;", ""},
		{"location", neither, "listen 28080;", ""},
		{"location", both, "proxy_pass http://127.0.0.1:1;", ""},
		{"location", both, "proxy_pass http://127.0.0.1:1/a/;", ""},
		{"location", both, "proxy_pass https://127.0.0.1;", ""},
		{"location", both, "proxy_pass HTTP://127.0.0.1;", ""},
		{"location", both, "proxy_pass http://unix:@dir/s:/a;", ""},
		{"location", both, "proxy_pass http://[::1]:1/;", ""},
		{"location", both, "proxy_pass http://$host:1$request_uri;", ""},
		{"location", neither, "proxy_pass 127.0.0.1:1;", ""},
		{"location", neither, "proxy_pass ftp://127.0.0.1;", ""},
		{"location", neither, "proxy_pass http://;", ""},
		{"location", neither, "proxy_pass http://127.0.0.1:70000;", ""},
		{"location", neither, "proxy_pass http://127.0.0.1:1; proxy_pass http://127.0.0.1:1;", ""},
		{"location", both, "proxy_pass $host;", ""},
		{"location", both, "proxy_pass $scheme://$host;", ""},
		{"location", both, "proxy_pass ${scheme}://127.0.0.1/a;", ""},
		{"location", neither, "proxy_pass ftp://127.0.0.1/a;", ""},
		{"location", stricter, "proxy_pass http://127.0.0.1:1; empty_gif;", "who answers has to be known"},
		{"server", neither, "location ~ a { proxy_pass http://127.0.0.1:1/; }", ""},
		{"server", neither, "location @a { proxy_pass http://127.0.0.1:1/; }", ""},
		{"server", both, "location ~ (a) { proxy_pass http://127.0.0.1:1/$1; }", ""},
		{"server", neither, "proxy_pass http://127.0.0.1:1;", ""},
		{"location", both, "fastcgi_pass 127.0.0.1:1;", ""},
		{"location", both, "fastcgi_pass unix:@dir/s;", ""},
		{"location", neither, "fastcgi_pass u;", ""},
		{"location", neither, "fastcgi_pass 127.0.0.1;", ""},
		{"location", neither, "fastcgi_pass unix:;", ""},
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
		{"http", both, "geo $a { ranges; 10.0.0.0-10.0.0.9 x; }", ""},
		{"http", neither, "geo $a { ranges; 10.0.0.9-10.0.0.0 x; }", ""},
		{"http", neither, "geo $a { 10.0.0.0/33 x; }", ""},
		{"http", neither, "geo $a { x y; }", ""},
		{"http", neither, "geo $a { 10.0.0.0/8; }", ""},
		{"http", neither, "geo a { }", ""},
		{"http", stricter, "geo $a { proxy 10.0.0.1; }", "real_ip_header does it"},
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
		{"location", stricter, "grpc_pass 127.0.0.1:1;", "not done here"},
		{"http", both, "ssl_protocols TLSv1.2 TLSv1.3; ssl_ciphers HIGH:!aNULL:!MD5; ssl_prefer_server_ciphers on; ssl_session_cache shared:SSL:1m; ssl_session_timeout 1d; ssl_session_tickets off;", ""},
		{"http", neither, "ssl_protocols TLSv2;", ""},
		{"http", neither, "ssl_session_cache big;", ""},
		{"http", stricter, "ssl_protocols SSLv3; server { listen unix:@dir/s; }", "it is not safe"},
	}
}

// upstreamCases cover the contents of upstream blocks.
func upstreamCases() []aCase {
	return []aCase{
		{"upstream", both, "server 127.0.0.1:1 weight=2 max_fails=0 fail_timeout=5s max_conns=3 backup; server 127.0.0.1 down;", ""},
		{"upstream", both, "server unix:@dir/s; keepalive 8; keepalive_timeout 10s; keepalive_requests 5; keepalive_time 1h;", ""},
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
		{"http", both, "server { listen unix:@dir/s; location / { proxy_pass http://a/b; } } upstream a { server 127.0.0.1:1; }", ""},
	}
}
