package front_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// Upstreams receive the same requests as from nginx.
func TestUpstreamRequestsAreNginxs(t *testing.T) {
	to := serve(t, echo)
	type request struct {
		method, path, body string
		fields             []string
	}
	cases := []struct {
		conf string
		line []request
	}{
		{`location / { proxy_pass http://UP; }`,
			[]request{{path: "/"}, {path: "/a%2Fb%20c?x=%20y&z"}, {path: "//a/../b/./c"}, {path: "/a?"},
				{method: "POST", path: "/p", body: "hello"}, {method: "DELETE", path: "/d"},
				{path: "/h", fields: []string{"X-A", "1", "X-A", "2", "Cookie", "a=b", "Te", "trailers", "Keep-Alive",
					"x", "Under_Score", "y", "Upgrade", "websocket"}}}},
		{`location /a/ { proxy_pass http://UP/b/; }`,
			[]request{{path: "/a/"}, {path: "/a/x%2Fy%20z?q=1"}, {path: "/a/%3Fx%23y%25"}, {path: "/a/../a/x"},
				{path: "/a//x"}, {path: "/a/\u00e4"}}},
		{`location /a { proxy_pass http://UP/b; }`, []request{{path: "/a"}, {path: "/abc?q"}, {path: "/a/x"}}},
		{`location = /e { proxy_pass http://UP/; }`, []request{{path: "/e?x=1"}}},
		{`location ~ ^/r/(.*)$ { proxy_pass http://UP/s/$1?k=v; }`, []request{{path: "/r/x/y"}, {path: "/r/x?gone=1"}}},
		{`location /w/ { rewrite ^/w/(.*)$ /new/$1?a=b break; proxy_pass http://UP/ignored/; }`,
			[]request{{path: "/w/x%20y?c=d"}}},
		{`location /x/ { rewrite ^/x/(.*)$ /x/n/$1 break; proxy_pass http://UP; }`, []request{{path: "/x/y%20z?c=d"}}},
		{`location /v { set $to UP; proxy_pass http://$to$request_uri; }`, []request{{path: "/v/x%20y?c=d"}}},
		{`location /q { set $to UP; proxy_pass http://$to; }`, []request{{path: "/q//x%20y?c=d"}}},
		{`location /s { proxy_pass http://UP; proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Real-IP ""; proxy_set_header Accept-Encoding ""; proxy_set_header X-Uri $uri; proxy_set_header X-Empty $arg_none; proxy_set_header X-Goal "$proxy_host $proxy_port"; }`,
			[]request{{path: "/s", fields: []string{"X-Real-Ip", "9.9.9.9", "X-Uri", "evil", "X-Empty", "evil",
				"X-Forwarded-For", "8.8.8.8"}}, {path: "/s/a%20b"}}},
		{`location /m { proxy_pass http://UP; proxy_method POST; proxy_set_body "[$arg_b]"; proxy_pass_request_headers off; }`,
			[]request{{path: "/m?b=x", fields: []string{"X-A", "1"}}}},
		{`location /n { proxy_pass http://UP; proxy_pass_request_body off; proxy_set_header Content-Length ""; }`,
			[]request{{method: "POST", path: "/n", body: "dropped"}}},
	}
	for _, c := range cases {
		nginx, ours := besideNginx(t, "", "proxy_http_version 1.1; "+strings.ReplaceAll(c.conf, "UP", to))
		for _, q := range c.line {
			if q.method == "" {
				q.method = "GET"
			}
			line := func(a *testClient) (response, echoed) {
				var e echoed
				got := a.do(q.method, q.path, strings.NewReader(q.body), q.fields...)
				if got.status == 200 {
					if err := json.Unmarshal([]byte(got.body), &e); err != nil {
						t.Errorf("%s: %v", got.body, err)
					}
				}
				return got, e
			}
			their, want := line(nginx)
			our, got := line(ours)
			if strings.HasPrefix(q.path, "/s") { // a socket has no address
				want.Header["X-Forwarded-For"], got.Header["X-Forwarded-For"] = nil, nil
			}
			if their.status != our.status || fmt.Sprint(want) != fmt.Sprint(got) {
				t.Errorf("%s\n%s %s: %d %+v\n want %d %+v", c.conf, q.method, q.path, our.status, got, their.status,
					want)
			}
		}
	}
}

// A PHP application in a usual configuration: existing files are served, and other paths go to the
// front controller.
func TestPHPApplicationIsServed(t *testing.T) {
	path, env := programs.PHP(t)
	dir := shortDir(t)
	root, socket := filepath.Join(dir, "www"), filepath.Join(dir, "php")
	for name, text := range map[string]string{
		"index.php": `<?php echo 'front ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['QUERY_STRING'];`,
		"info.php":  `<?php header('X-Many: one'); header('X-Many: two', false); http_response_code(201); echo $_SERVER['PATH_INFO'] ?? 'none', ' ', $_SERVER['REQUEST_METHOD'], ' ', strlen(file_get_contents('php://input')), ' ', $_SERVER['HTTP_PROXY'] ?? 'safe';`,
		"log.php":   `<?php error_log('oops'); echo 'body';`, "style.css": "css", "evil.jpg": "<?php echo 'run';",
	} {
		if err := errors.Join(os.MkdirAll(root, 0o755), os.WriteFile(filepath.Join(root, name), []byte(text),
			0o644)); err != nil {
			t.Fatal(err)
		}
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
		if got := a.do(test.method, test.path, strings.NewReader(pattern(test.body)), "Proxy",
			"evil"); got.status != test.status || got.body != test.want {
			t.Errorf("%s %s: %d %q, want %d %q", test.method, test.path, got.status, got.body, test.status, test.want)
		}
	}
	if got := a.do("GET", "/evil.jpg/x.php", nil); got.status == 200 && strings.Contains(got.body, "run") {
		t.Errorf("a picture was run: %d %q", got.status, got.body)
	}
}
