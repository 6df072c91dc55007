package front_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// A PHP application in a usual configuration: existing files are served, and other paths go to the
// front controller.
func TestPHPApplicationIsServed(t *testing.T) {
	path, env := programs.PHP(t)
	dir := testkit.ShortDir(t)
	root, socket := filepath.Join(dir, "www"), filepath.Join(dir, "php")
	for name, text := range map[string]string{
		"index.php": `<?php echo 'front ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['QUERY_STRING'];`,
		"info.php":  `<?php header('X-Many: one'); header('X-Many: two', false); http_response_code(201); echo $_SERVER['PATH_INFO'] ?? 'none', ' ', $_SERVER['REQUEST_METHOD'], ' ', strlen(file_get_contents('php://input')), ' ', $_SERVER['HTTP_PROXY'] ?? 'safe';`,
		"log.php":   `<?php error_log('oops'); echo 'body';`, "style.css": "css", "evil.jpg": "<?php echo 'run';",
	} {
		testkit.WriteFile(t, filepath.Join(root, name), text)
	}
	text := "[global]\ndaemonize = no\nerror_log = /dev/stderr\n[www]\npm = static\npm.max_children = 2\nlisten = " +
		socket + "\nuser = root\n"
	must(t, os.WriteFile(filepath.Join(dir, "conf"), []byte(text), 0o644))
	programs.Start(t, "unix", socket, env, path, "-R", "-n", "-F", "-y", filepath.Join(dir, "conf"), "-p", dir)
	params := []conf.Param{
		{Name: "SCRIPT_FILENAME", Value: "$document_root$fastcgi_script_name"},
		{Name: "SCRIPT_NAME", Value: "$fastcgi_script_name"}, {Name: "PATH_INFO", Value: "$fastcgi_path_info", IfNotEmpty: true},
		{Name: "REQUEST_URI", Value: "$request_uri"}, {Name: "QUERY_STRING", Value: "$query_string"},
		{Name: "REQUEST_METHOD", Value: "$request_method"}, {Name: "CONTENT_TYPE", Value: "$content_type"},
		{Name: "CONTENT_LENGTH", Value: "$content_length"}, {Name: "SERVER_PROTOCOL", Value: "$server_protocol"},
	}
	settings := conf.Settings{Files: conf.Files{Root: conf.Text(root), Index: []conf.Text{"index.php"}}, MaxBody: -1}
	pass := conf.Proxy{To: conf.Text("unix:" + socket), Protocol: "fastcgi", Params: params,
		SplitPath: `^(.+\.php)(/.+)$`, ParamIndex: "index.php"}
	a := serveHandler(t, newFront(t, oneHost(
		conf.Location{Path: "/", TryFiles: []conf.Text{"$uri", "$uri/", "/index.php?$args"}, Settings: &settings},
		conf.Location{Match: "~", Path: `\.php(/|$)`, Proxy: &pass, Settings: &settings},
	)))
	for _, test := range []struct {
		method, path string
		body         int
		status       int
		want         string
	}{
		{"GET", "/", 0, 200, "front / /index.php "},
		{"GET", "/some/page?x=1", 0, 200, "front /some/page?x=1 /index.php x=1"},
		{"GET", "/style.css", 0, 200, "css"}, {"GET", "/evil.jpg", 0, 200, "<?php echo 'run';"},
		{"GET", "/info.php", 0, 201, "none GET 0 safe"},
		{"POST", "/info.php/a/b", 200_000, 201, "/a/b POST 200000 safe"},
		{"GET", "/none.php", 0, 404, "File not found.\n"},
		{"GET", "/log.php", 0, 200, "body"},
	} {
		a.do(test.method, test.path, strings.NewReader(pattern(test.body)), "Proxy",
			"evil").is(t, test.status, test.want)
	}
	if got := a.do("GET", "/evil.jpg/x.php", nil); got.status == 200 && strings.Contains(got.body, "run") {
		t.Errorf("a picture was run: %d %q", got.status, got.body)
	}
}

// addresses returns the servers that requests tried, one request after another.
func (a *testClient) addresses(paths []string) []string {
	a.t.Helper()
	all := make([]string, len(paths))
	for i, path := range paths {
		_, key, _ := strings.Cut(path, "=")
		all[i] = a.get(path, "X-Real-Ip", key).header.Get("X-Addr")
	}
	return all
}

// Clients and keys go to the same servers as with nginx, and move to the same ones if a server is
// down.
func TestServersAreChosenAsByNginx(t *testing.T) {
	var outer, server strings.Builder
	server.WriteString("set_real_ip_from unix:;")
	socket := serveHandler(t, http.HandlerFunc(echo)).socket
	ok := func(http.ResponseWriter, *http.Request) {}
	addrs := []any{serve(t, ok), serve(t, ok), serve(t, ok), serve(t, ok)}
	var paths []string
	for i, lines := range []string{
		"server %s; server %s; server %s; server %s;", "server %s weight=3; server %s; server %s weight=2; server %s;",
		"server %s; server %s down; server %s; server %s;", "server %s weight=5; server %s; server %s; server %s backup;",
		"server %s weight=99 down; server %s; server %s; server %s;",
		"server 127.0.0.9 max_fails=0; server unix:SOCKET; server %s; server %s weight=2; server %s; server %s;",
	} {
		for j, method := range []string{"", "ip_hash;", "hash $arg_key;", "hash $arg_key consistent;"} {
			if method != "" && strings.Contains(lines, "backup") {
				continue // nginx rejects it
			}
			name := fmt.Sprintf("u%d%d", i, j)
			fmt.Fprintf(&outer, "upstream %s { %s "+lines+" }\n", append([]any{name, method}, addrs...)...)
			fmt.Fprintf(&server, "location /%s { proxy_pass http://%s; add_header X-Addr $upstream_addr; }\n", name, name)
			for n := range 100 {
				key := fmt.Sprintf("%d.%d.%d.%d", n, n*n%256, n*77%256, n)
				if n%3 == 0 {
					key = fmt.Sprintf("2001:db8:%x::%x", n, n*n)
				}
				paths = append(paths, "/"+name+"?key="+key)
			}
		}
	}
	upstreams := strings.ReplaceAll(outer.String(), "SOCKET", socket)
	theirs, _ := serveNginx(t, upstreams, server.String())
	want, counts := theirs.addresses(paths), make(map[string]int)
	for i, got := range serveConf(t, upstreams, server.String()).addresses(paths) {
		if counts[got]++; got != want[i] {
			t.Errorf("%s: %s, want %s", paths[i], got, want[i])
		}
	}
	if len(counts) < 4 {
		t.Errorf("the distribution: %v", counts)
	}
}

// Servers that fail are tried in the same order and as often as by nginx.
func TestServersRestAsWithNginx(t *testing.T) {
	good := serve(t, func(http.ResponseWriter, *http.Request) {})
	bad := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	const dead = "127.0.0.1:1"
	outer, server := "", "proxy_next_upstream error timeout http_503;"
	var paths []string
	for i, lines := range []string{
		"server DEAD; server GOOD;", "server DEAD;", "server DEAD; server DEAD;",
		"server DEAD; server GOOD down; server BAD backup; server GOOD backup;",
		"ip_hash; server DEAD; server GOOD; server GOOD;", "hash $uri consistent; server DEAD; server GOOD; server GOOD;",
		"server DEAD max_fails=3 fail_timeout=1h; server GOOD;",
		"server DEAD max_fails=0; server GOOD;",
		"server BAD max_fails=2 fail_timeout=1h; server GOOD weight=2;",
		"server BAD weight=5 max_fails=4 fail_timeout=1h; server GOOD weight=2; server DEAD;",
		"server DEAD; server BAD; server GOOD backup;",
		"least_conn; server DEAD max_fails=2; server GOOD; server GOOD;",
		"server DEAD max_fails=0; server DEAD fail_timeout=1h;",
		"server DEAD max_fails=0; server DEAD fail_timeout=1h; server GOOD down;",
		"hash $uri; server DEAD max_fails=0; server DEAD fail_timeout=1h;",
		"server DEAD max_fails=0; server DEAD fail_timeout=1h backup;",
	} {
		outer += fmt.Sprintf("upstream u%d { %s }\n", i, lines)
		server += fmt.Sprintf("location /u%d { proxy_pass http://u%d; add_header X-Addr $upstream_addr always; }\n", i, i)
		for range 15 {
			paths = append(paths, fmt.Sprintf("/u%d", i))
		}
	}
	outer = strings.NewReplacer("DEAD", dead, "BAD", bad, "GOOD", good).Replace(outer)
	theirs, _ := serveNginx(t, outer, server)
	want := theirs.addresses(paths)
	for i, got := range serveConf(t, outer, server).addresses(paths) {
		testkit.Equal(t, got, want[i], paths[i], "request", i%15)
	}
}
