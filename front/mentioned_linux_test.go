package front_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// An unknown variable is rejected where nginx rejects it, even if nothing uses the text.
func TestUnusedTextsMentionKnownVariables(t *testing.T) {
	const server, replaced = "\nserver { listen unix:DIR/s; }", "\nserver { listen unix:DIR/s; " +
		"proxy_set_header A b; fastcgi_param A b; grpc_set_header A b; proxy_method GET; location / { } }"
	tool, dir := programs.Nginx(t), shortDir(t)
	for text, isAccepted := range unusedTexts(server, replaced) {
		conf := "daemon off; pid DIR/pid; error_log DIR/error.log;\nevents { }\nhttp { access_log off; " +
			"client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; " +
			"scgi_temp_path DIR/c;\n" + text + "\n}\n"
		name := filepath.Join(dir, "conf")
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(conf, "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := testkit.Command(t, tool.Bin, "-t", "-p", dir, "-c", name, "-e", filepath.Join(dir, "error.log"))
		cmd.Env = slices.Concat(os.Environ(), tool.Env)
		output, err := cmd.CombinedOutput()
		if (err == nil) != isAccepted || err != nil && !strings.Contains(string(output), `unknown "nosuch" variable`) {
			t.Errorf("%s: nginx reports %s", text, output)
		}
		read, err := nginxconf.Parse(name, nginxconf.Options{Prefix: dir})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		h, err := front.New(read.Config, quiet())
		switch {
		case err == nil:
			h.Close()
			fallthrough
		case isAccepted:
			if (err == nil) != isAccepted {
				t.Errorf("%s: %v; want accepted: %v", text, err, isAccepted)
			}
		case !strings.Contains(err.Error(), name+":4: unknown variable $nosuch"):
			t.Errorf("%s: %v", text, err)
		}
	}
}

// unusedTexts returns whether nginx accepts texts that nothing uses. A server replaces the
// settings of the http block that nginx reads for each server.
func unusedTexts(server, replaced string) map[string]bool {
	all := map[string]bool{
		"proxy_set_header X $nosuch;" + replaced:                                                        true,
		"fastcgi_param X $nosuch;" + replaced:                                                           true,
		"grpc_set_header X $nosuch;" + replaced:                                                         true,
		"proxy_method $nosuch;" + replaced:                                                              false,
		"proxy_set_header X $nosuch; proxy_set_body $nosuch;" + replaced:                                false,
		"server { listen unix:DIR/s; proxy_set_header X $nosuch; location / { proxy_method GET; } }":    false,
		"server { listen unix:DIR/s; location /a { grpc_set_header X $nosuch; } }":                      false,
		"access_log DIR/l$nosuch; server { listen unix:DIR/s; access_log off; }":                        false,
		"access_log DIR/l$name; server { listen unix:DIR/s; server_name ~(?<name>a); access_log off; }": true,
		"add_header X $Later$arg_a$remote_addr$http_a;\nmap $uri $later { default a; }" + server:        true,
	}
	for _, text := range []string{
		"log_format x $nosuch;", "map $uri $a { default $nosuch; }", "map $nosuch $a { default 1; }",
		"geo $nosuch $a { default 1; }", "split_clients $nosuch $a { * 1; }",
		"limit_req_zone $nosuch zone=a:1m rate=1r/s;", "limit_conn_zone $nosuch zone=a:1m;",
		"upstream u { server 127.0.0.1:1; hash $nosuch; }",
	} {
		all[text+server] = false
	}
	for _, text := range []string{
		"proxy_set_header X $nosuch;", "fastcgi_param X $nosuch;", "grpc_set_header X $nosuch;",
		"add_header X $nosuch;", "add_trailer X $nosuch;", "proxy_method $nosuch;", "proxy_set_body $nosuch;",
		"proxy_cookie_path $nosuch /;", "proxy_cookie_path / $nosuch;", "proxy_cookie_path ~(?<a>.) $a$nosuch;",
		"proxy_cookie_domain $nosuch a;", "proxy_cookie_domain a $nosuch;", "proxy_cookie_flags $nosuch secure;",
		"proxy_cookie_flags a $nosuch;", "proxy_redirect $nosuch /;", "proxy_redirect / $nosuch;",
		"proxy_redirect ~(.*) $nosuch;", "proxy_bind $nosuch;", "fastcgi_bind $nosuch;", "grpc_bind $nosuch;",
		"proxy_cache_key $nosuch;", "fastcgi_cache_key $nosuch;", "proxy_cache_bypass $nosuch;",
		"fastcgi_cache_bypass $nosuch;", "proxy_no_cache $nosuch;", "fastcgi_no_cache $nosuch;",
		"proxy_cache $nosuch;", "fastcgi_cache $nosuch; fastcgi_cache_key a;", "proxy_ssl_name $nosuch;",
		"grpc_ssl_name $nosuch;", "proxy_ssl_certificate $nosuch; proxy_ssl_certificate_key $nosuch;",
		"grpc_ssl_certificate $nosuch; grpc_ssl_certificate_key $nosuch;",
		"access_log DIR/l combined if=$nosuch;", "access_log DIR/l$nosuch;", "root /a$nosuch;",
		"error_page 404 /$nosuch;", "index $nosuch;", "expires $nosuch;", "limit_rate $nosuch;",
		"limit_rate_after $nosuch;", "sub_filter $nosuch a;", "sub_filter a $nosuch;", "charset $nosuch;",
		"source_charset $nosuch; charset utf-8;", "secure_link $nosuch;", "secure_link_md5 $nosuch;",
		"auth_basic $nosuch; auth_basic_user_file a;", "auth_basic a; auth_basic_user_file $nosuch;",
		"auth_basic_user_file $nosuch;", "auth_request_set $a $nosuch;", "disable_symlinks on from=$nosuch;",
	} {
		all[text+server] = false
		all["server { listen unix:DIR/s; "+text+" }"] = false
		all["server { listen unix:DIR/s; location /a { "+text+" } }"] = false
	}
	for _, text := range []string{
		"try_files $nosuch =404;", "alias /a$nosuch;", "return 200 $nosuch;", "rewrite a $nosuch;", "set $a $nosuch;",
		"if ($nosuch) { }", "if ($uri = $nosuch) { }", "if (-f /a$nosuch) { }", "proxy_pass http://a/$nosuch;",
		"fastcgi_pass $nosuch;", "grpc_pass $nosuch;", "limit_except GET { auth_basic_user_file $nosuch; }",
		"limit_except GET { auth_basic $nosuch; auth_basic_user_file a; }", "limit_except GET { access_log DIR/l$nosuch; }",
		"if ($uri) { add_header X $nosuch; }", "if ($uri) { root /a$nosuch; }", "if ($uri) { expires $nosuch; }",
		"if ($uri) { error_page 404 /$nosuch; }", "if ($uri) { limit_rate $nosuch; }",
	} {
		all["server { listen unix:DIR/s; location /a { "+text+" } }"] = false
	}
	for _, text := range []string{
		"userid_domain $nosuch;", "fastcgi_index $nosuch;", "proxy_redirect ~^http://a/(?<rest>.*) /$rest;",
		"proxy_cookie_path ~^/(?<rest>.*) /$rest;",
	} {
		all[text+server] = true
	}
	return all
}
