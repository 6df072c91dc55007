package nginxconf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// nginx rejects unknown variables even in settings that nothing uses.
func TestUnknownVariablesAreRejectedWhereNginxRejectsThem(t *testing.T) {
	tool := programs.Nginx(t)
	const replaced = " server { @listen proxy_set_header A b; fastcgi_param A b; grpc_set_header A b; location / {} }"
	for _, text := range []string{
		"log_format x $nosuch;", "add_header X $nosuch;", "add_trailer X $nosuch;", "root /a$nosuch;", "index $nosuch;",
		"error_page 404 /$nosuch;", "expires $nosuch;", "limit_rate $nosuch;", "sub_filter $nosuch a;",
		"secure_link $nosuch;", "secure_link_md5 $nosuch;", "auth_basic $nosuch;", "auth_basic_user_file $nosuch;",
		"access_log @dir/l combined if=$nosuch;", "access_log @dir/l$nosuch;", "mirror $nosuch;",
		"proxy_set_header X $nosuch;", "fastcgi_param X $nosuch;", "grpc_set_header X $nosuch;",
		"proxy_set_header X $nosuch;" + replaced, "fastcgi_param X $nosuch;" + replaced,
		"grpc_set_header X $nosuch;" + replaced,
		"proxy_method $nosuch;", "proxy_set_body $nosuch;", "proxy_cookie_path $nosuch /;",
		"proxy_cookie_domain a $nosuch;", "proxy_cookie_flags $nosuch secure;", "proxy_redirect $nosuch /;",
		"proxy_bind $nosuch;", "proxy_cache_key $nosuch;", "proxy_cache_bypass $nosuch;", "proxy_no_cache $nosuch;",
		"proxy_ssl_name $nosuch;", "fastcgi_cache_key $nosuch;", "fastcgi_index $nosuch;",
		"map $uri $a { default $nosuch; }", "map $nosuch $a { default 1; }", "geo $nosuch $a { default 1; }",
		"split_clients $nosuch $a { * 1; }", "limit_req_zone $nosuch zone=a:1m rate=1r/s;",
		"limit_conn_zone $nosuch zone=a:1m;", "upstream u { server 127.0.0.1:1; hash $nosuch; }",
		"server { @listen proxy_set_header X $nosuch; location / { proxy_set_header A b; } }",
		"server { @listen location /a { location /a/b { proxy_set_header A $nosuch; } } }",
	} {
		dir := t.TempDir()
		if !strings.HasSuffix(text, "} }") {
			text += " server { @listen }"
		}
		conf := filepath.Join(dir, "nginx.conf")
		wrapped := aCase{level: "http", text: strings.ReplaceAll(text, "@listen", "listen unix:@dir/s;")}.wrapped(dir)
		if err := os.WriteFile(conf, []byte(wrapped), 0o600); err != nil {
			t.Fatal(err)
		}
		output, theirs := tried(t, tool, dir, conf)
		var h *front.Handler
		r, ours := Parse(conf, Options{Prefix: dir})
		if ours == nil {
			if h, ours = front.New(r.Config); ours == nil {
				_ = h.Close()
			}
		}
		if (theirs == nil) != (ours == nil) {
			t.Errorf("%s: nginx reports %s; got %v", text, output, ours)
		}
		if ours != nil && !strings.Contains(ours.Error(), conf+":") {
			t.Errorf("%s: %v has no position", text, ours)
		}
	}
}
