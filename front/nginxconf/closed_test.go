package nginxconf

import (
	"errors"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit"
)

// statusOf returns the status of a request to a leniently parsed configuration.
func statusOf(t *testing.T, text, path string) int {
	t.Helper()
	return respond(t, parsed(t, text, Options{Lenient: true}).Config, path).Code
}

// A rejected directive that may decide which clients get which response closes its location, server
// or http block.
func TestLenientRejectedDirectiveClosesItsBlock(t *testing.T) {
	testkit.NoRace(t, "it parses thousands of configurations in one goroutine")
	const open = "empty_gif;"
	for name, where := range map[string]string{
		"location": "location /a { %s " + open + " } location /b { " + open + " }",
		"inner":    "location /a { %s location /a/b { " + open + " } " + open + " } location /b { " + open + " }",
		"return":   "location /a { %s return 200 x; } location /b { return 200 x; }",
		"rewrite":  "location /a { %s rewrite ^ /b break; " + open + " } location /b { " + open + " }",
		"last":     "location /a { %s rewrite ^ /b last; } location /b { " + open + " }",
		"page": "location /a { %s error_page 403 500 503 = @open; " + open + " } location @open { " + open +
			" } location /b { " + open + " }",
		"if":     "location /a { if ($uri) { %s } " + open + " } location /b { " + open + " }",
		"any":    "location /a { %s satisfy any; allow all; " + open + " } location /b { " + open + " }",
		"except": "location /a { limit_except POST { %s } " + open + " } location /b { " + open + " }",
		"named": "location /a { error_page 404 = @a; return 404; } location @a { %s " + open + " } location /b { " +
			open + " }",
		"server": "location / { " + open + " } } server { listen 80; server_name other; %s location / { " + open + " }",
	} {
		for _, d := range []string{
			"access_by_lua_block { deny() }", `access_by_lua_block { a = "}" -- }` + "\n b = [[ } ]] c = '\\'}' }",
			"access_by_lua 'ngx.exit(403)';", "js_access a.b;",
			"rewrite_by_lua_file /x.lua;", "header_filter_by_lua_block { x() }", "lua_need_request_body on;",
			"perl a;", "modsecurity on;", "modsecurity_rules_file /x;",
			"auth_jwt realm;", "auth_jwt_enabled on;", "geoip_deny x;",
			"more_clear_input_headers X-User;", "ssi on;", "xml_entities a;", "image_filter resize 1 1;", "echo x;",
			"uwsgi_pass a;",
			"proxy_ssl_conf_command a b;", "vhost_traffic_status_limit on;",
		} {
			if name == "if" && (strings.HasPrefix(d, "auth") || strings.HasPrefix(d, "proxy_") ||
				strings.HasPrefix(d, "xml")) ||
				name == "except" && (strings.HasPrefix(d, "proxy_") ||
					strings.HasPrefix(d, "xml") || strings.HasPrefix(d, "ssi") || strings.HasPrefix(d, "uwsgi")) ||
				name == "server" && strings.HasPrefix(d, "uwsgi") {
				continue // not allowed there
			}
			text := inHTTP("server { listen 80; " + strings.ReplaceAll(where, "%s", d) + " }")
			host := "http://x"
			if name == "server" {
				host = "http://other"
			}
			testkit.Equal(t, statusOf(t, text, host+"/a"), 503, name, d)
			testkit.Equal(t, statusOf(t, text, "http://x/b"), 200, name, d, "elsewhere")
		}
	}
}

// wantStatuses fails unless a request to each configuration has the status before it.
func wantStatuses(t *testing.T, all map[int][]string) {
	t.Helper()
	for want, texts := range all {
		for _, text := range texts {
			testkit.Equal(t, statusOf(t, text, "http://x/"), want, text)
		}
	}
}

// The same holds for directives outside of locations, and for definitions that others use. In a
// server they also close the server's own responses. A harmless directive is only left out.
func TestLenientRejectedDirectiveOutsideLocationsClosesAll(t *testing.T) {
	const server = "server { listen 80; location / { empty_gif; } }"
	wantStatuses(t, map[int][]string{
		503: {
			inHTTP("server { listen 80; modsecurity on; return 200 x; }"),
			inHTTP("server { listen 80; modsecurity on; rewrite ^ https://x/ permanent; }"),
			inHTTP("server { listen 80; modsecurity on; if ($uri) { return 200 x; } }"),
			inHTTP("server { listen 80; ssl_ocsp on; location / { empty_gif; } }"),
			inHTTP("server { listen 80; if ($uri) { set_by_lua $x 'return 1'; } location / { empty_gif; } }"),
			inHTTP("init_by_lua_block { x() } " + server),
			inHTTP("js_import a.js; " + server),
			inHTTP("perl_modules a; " + server),
			inHTTP("upstream a { server 127.0.0.1:1; balancer_by_lua_block { x() } } " + server),
			"load_module modules/ngx_http_auth_pam_module.so;" + inHTTP(server),
		},
		200: {
			"load_module modules/ngx_http_geoip_module.so; load_module ngx_http_lua_module.so;" +
				inHTTP("server { location / { empty_gif; } }"),
			inHTTP("server { vhost_traffic_status off; location / { post_action /m; empty_gif; } }"),
			inHTTP("server { access_log syslog:server=a; listen 81 so_keepalive=1m::; location / { modsecurity off; keepalive_timeout 1s; empty_gif; } }"),
			inHTTP("modsecurity on; server { location / { modsecurity off; empty_gif; } }"),
			inHTTP(`server { location / { if ($arg_x) { return 403; } proxy_set_header A $tcpinfo_rtt; empty_gif; } }`),
		},
	})
}

// Variables that are unavailable, or that only a rejected directive defines, are empty where they
// decide nothing. Elsewhere they close what they are in. They are no errors: nginx accepts them.
func TestLenientVariablesOfRejectedDirectives(t *testing.T) {
	all := map[int][]string{
		200: {
			"server { add_header X $date_gmt; location / { empty_gif; } }",
			"server { location / { return 200 $date_local$msie; } }",
			"server { ssi on; location / { ssi off; add_header X $date_gmt; empty_gif; } }",
			"map $uri $msie { default a; } server { if ($msie = b) { return 403; } location / { empty_gif; } }",
			"server { set $ancient_browser x; if ($ancient_browser = y) { return 403; } location / { empty_gif; } }",
			"geoip_country /x; server { add_header X $geoip_country_code; location / { empty_gif; } }",
			"geoip_country /x; log_format a $geoip_city; server { access_log off; location / { empty_gif; } }",
			"geoip2 /x { $country default=US country iso_code; } server { add_header X $country; location / { empty_gif; } }",
			"vhost_traffic_status_zone; server { add_header X $vts_request_counter; location / { empty_gif; } }",
		},
		503: {
			"server { location / { ssi on; add_header X $date_gmt; return 200; } }",
			"server { location / { return 302 /$date_gmt; } }",
			"server { if ($msie) { return 403; } location / { empty_gif; } }",
			"server { if ($tcpinfo_rtt) { return 403; } location / { empty_gif; } }",
			"map $tcpinfo_rtt $b { default 1; } server { location / { empty_gif; } }",
			"map $uri $b { default $tcpinfo_rtt; } server { location / { empty_gif; } }",
			"limit_req_zone $tcpinfo_rtt zone=a:1m rate=1r/s; server { location / { empty_gif; } }",
			"server { set $a $tcpinfo_rtt; location / { empty_gif; } }",
			"server { location / { proxy_cache_bypass $tcpinfo_rtt; proxy_pass http://127.0.0.1:1; } }",
			"geoip_country /x; map $geoip_country_code $a { default 1; } server { location / { empty_gif; } }",
			"geoip2 /x { $country country iso_code; } server { if ($country = XX) { return 403; } location / { empty_gif; } }",
			"geoip2 /x { $country country iso_code; } server { proxy_set_header X $country; location / { empty_gif; } }",
			"server { location / { set_by_lua $x 'return 1'; if ($x) { return 403; } } }",
			"js_set $x a.b; server { if ($x) { return 403; } location / { empty_gif; } }",
			"server { location / { auth_jwt x; add_header X $jwt_claim_sub; empty_gif; } }",
		},
	}
	for _, texts := range all {
		for i := range texts {
			texts[i] = inHTTP(texts[i])
		}
	}
	wantStatuses(t, all)
}

// A module whose directives are known is not loaded, without an error.
func TestKnownModuleIsAccepted(t *testing.T) {
	text := "load_module modules/ngx_http_brotli_static_module.so; load_module /x/ngx_stream_module.so;" +
		inHTTP("server { listen 80; }")
	if r := parsed(t, text, Options{}); len(r.Notes) < 2 || r.Notes[0].Directive != "load_module" ||
		r.Notes[1].Directive != "load_module" {
		t.Errorf("%v", r.Notes)
	}
	_, err := parse("load_module ngx_http_auth_pam_module.so;"+text, Options{})
	testkit.Is(t, err, errors.ErrUnsupported, "unknown module")
}

// What nginx would reject is an error for a lenient parser, too.
func TestLenientReportsErrorsOfNginx(t *testing.T) {
	for _, text := range []string{
		"events {} nosuch;", "events {} nosuch { }", inHTTP("server { location / { LearningMode; } }"),
		inHTTP("server { location / { limit_except GET { nosuch; } } }"),
		inHTTP("server { location / { if ($uri) { auth_pam x; } } }"), inHTTP("server { satisfy foo; }"),
		inHTTP("include nosuch.conf;"),
		inHTTP("server { listen 80 nosuch; }"),
		inHTTP("limit_req_zone $uri zone=a:1m rate=1r/s; server { limit_req zone=a nosuch=1; }"),
		inHTTP("server { ssl_verify_client foo; }"), inHTTP("server { allow nosuch; }"),
		inHTTP("server { auth_request foo; }"), inHTTP("server { secure_link_md5 ${; }"),
	} {
		testkit.Fails(parse(text, Options{Lenient: true}))(t, "", text)
	}
	for _, text := range []string{
		"map $geoip_country_code $a { default 1; }", "server { if ($nosuch) { return 403; } }",
		"geoip_country /x; server { if ($nosuch) { return 403; } }", "server { add_header X $vts_x; }",
	} {
		r, err := parse(inHTTP(text), Options{Lenient: true})
		if err == nil {
			_, err = front.New(r.Config)
		}
		testkit.Error(t, err, "", text)
	}
}
