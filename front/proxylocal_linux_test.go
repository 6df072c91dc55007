package front_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// localFailures are server blocks whose requests reach no server, by path.
const localFailures = `
	access_log DIR/log local;
	location = /down { proxy_pass http://down; }
	location = /name { set $to ""; proxy_pass http://$to; }
	location = /port { set $to 127.0.0.1:99999; proxy_pass http://$to; }
	location = /scheme { set $to ftp://127.0.0.1; proxy_pass $to; }
	location = /nothing { set $to ""; proxy_pass $to; }
	location = /path { set $to http:///path; proxy_pass $to; }
	location = /unresolved { set $to nosuch.invalid; proxy_pass http://$to; }
	location = /portless { set $to 127.0.0.1:; proxy_pass http://$to; }
	location = /bind { proxy_bind 192.0.2.1; proxy_pass http://127.0.0.1:1; }
	location = /closed { proxy_pass http://127.0.0.1:1; }
	location = /socket { proxy_pass http://unix:DIR/nosuch:/; }
	location = /fcgi { set $to ""; fastcgi_pass $to; }
	location = /fcgidown { fastcgi_pass down; }
	location = /fcginame { set $to nosuch.invalid:9000; fastcgi_pass $to; }
	location = /late { proxy_pass http://dead; }
	location = /upper { set $to DOWN; proxy_pass http://$to; }
	location = /zero { set $to 127.0.0.1:0; proxy_pass http://$to; }
	location = /resolver { resolver 127.0.0.1:1; resolver_timeout 100ms; set $to nosuch.invalid; proxy_pass http://$to; }
	location = /grpc { grpc_pass grpc://down; }
	location = /grpcname { set $to ""; grpc_pass $to; }
	location = /auth { auth_request /down; root /nosuch; }
	location = /mixed { proxy_next_upstream_tries 1; proxy_pass http://mixed; }
	location = /cached { proxy_cache a; proxy_cache_key $uri; proxy_cache_use_stale error; proxy_pass http://down; }
	location = /bound { proxy_bind $arg_from; proxy_pass http://dead2; }
	location = /tls { proxy_pass https://down; }
	location = /tlsname { set $to "a b"; proxy_pass https://$to; }
	location = /space { set $to "a b"; proxy_pass http://$to; }
	location = /try { try_files /nosuch @page; }
	location = /body { proxy_request_buffering off; proxy_pass http://down; }
	location = /page { error_page 502 = /closed; proxy_pass http://down; }
	location = /pages { error_page 500 502 = @page; set $to ""; proxy_pass http://$to; }
	location @page { proxy_pass http://down; }
`

const localOuter = `
	log_format local "$request_uri $status [$upstream_status] [$upstream_addr] [$upstream_response_time] [$upstream_connect_time] [$upstream_header_time] [$upstream_response_length] [$upstream_bytes_sent] [$upstream_bytes_received]";
	upstream down { server 127.0.0.1:1 down; }
	upstream dead { server 127.0.0.1:1 max_fails=1; server 127.0.0.2:1 max_fails=1; }
	upstream dead2 { server 127.0.0.1:1 max_fails=0; server 127.0.0.2:1 max_fails=0; }
	upstream mixed { server 127.0.0.1:1; server 127.0.0.2:1 down; server 127.0.0.3:1 backup; }
	proxy_cache_path DIR/cache keys_zone=a:1m;
`

// What variables about upstreams show of a request that no server has received is nginx's.
func TestVariablesOfLocalFailuresAreNginxs(t *testing.T) {
	paths := []string{"bound?from=192.0.2.1", "down", "name", "port", "scheme", "nothing", "path", "unresolved",
		"portless", "bind", "closed", "socket", "fcgi", "fcgidown", "fcginame", "late", "late", "page", "pages",
		"upper", "zero", "resolver", "grpc", "grpcname", "auth", "mixed", "cached", "bound", "bound?from=x", "tls",
		"tlsname", "space", "try", "body"}
	logs := make(map[string][]string)
	for name, start := range map[string]func() (*testClient, string){
		"nginx": func() (*testClient, string) { return serveNginx(t, localOuter, localFailures) },
		"tare": func() (*testClient, string) {
			dir := shortDir(t)
			in := strings.NewReplacer("DIR", dir)
			return serveConf(t, in.Replace(localOuter), in.Replace(localFailures)), dir
		},
	} {
		a, dir := start()
		for _, path := range paths {
			a.get("/" + path)
		}
		lines := awaitLines(t, filepath.Join(dir, "log"), len(paths))
		for i := range lines {
			line := strings.ReplaceAll(lines[i], dir, "DIR")
			lines[i] = regexp.MustCompile(`\d\.\d{3}`).ReplaceAllString(line, "TIME")
		}
		logs[name] = lines
	}
	for i, path := range paths {
		if got, want := logs["tare"][i], logs["nginx"][i]; got != want {
			t.Errorf("%s:\n%s\nnginx:\n%s", path, got, want)
		}
	}
}
