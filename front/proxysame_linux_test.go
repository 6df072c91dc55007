package front_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// Upstreams receive the same requests as from nginx.
func TestUpstreamRequestsAreNginxs(t *testing.T) {
	to := serve(t, echo)
	text := func(s string) *conf.Text { t := conf.Text(s); return &t }
	pass := func(p conf.Proxy) *conf.Proxy {
		p.To = conf.Text(strings.ReplaceAll(string(p.To), "UP", to))
		p.Version = "1.1"
		return &p
	}
	type request struct {
		method, path, body string
		fields             []string
	}
	cases := []struct {
		conf     string
		location conf.Location
		line     []request
	}{
		{
			`location / { proxy_pass http://UP; }`, conf.Location{Path: "/", Proxy: pass(conf.Proxy{To: "UP"})},
			[]request{{path: "/"}, {path: "/a%2Fb%20c?x=%20y&z"}, {path: "//a/../b/./c"}, {path: "/a?"},
				{method: "POST", path: "/p", body: "hello"}, {method: "DELETE", path: "/d"},
				{path: "/h", fields: []string{"X-A", "1", "X-A", "2", "Cookie", "a=b", "Te", "trailers", "Keep-Alive",
					"x", "Under_Score", "y", "Upgrade", "websocket"}}},
		},
		{
			`location /a/ { proxy_pass http://UP/b/; }`,
			conf.Location{Path: "/a/", Proxy: pass(conf.Proxy{To: "UP", URI: text("/b/")})},
			[]request{{path: "/a/"}, {path: "/a/x%2Fy%20z?q=1"}, {path: "/a/%3Fx%23y%25"}, {path: "/a/../a/x"},
				{path: "/a//x"}, {path: "/a/\u00e4"}},
		},
		{
			`location /a { proxy_pass http://UP/b; }`,
			conf.Location{Path: "/a", Proxy: pass(conf.Proxy{To: "UP", URI: text("/b")})},
			[]request{{path: "/a"}, {path: "/abc?q"}, {path: "/a/x"}},
		},
		{
			`location = /e { proxy_pass http://UP/; }`, conf.Location{Match: "=", Path: "/e",
				Proxy: pass(conf.Proxy{To: "UP", URI: text("/")})},
			[]request{{path: "/e?x=1"}},
		},
		{
			`location ~ ^/r/(.*)$ { proxy_pass http://UP/s/$1?k=v; }`,
			conf.Location{Match: "~", Path: "^/r/(.*)$",
				Proxy: pass(conf.Proxy{To: "UP", URI: text("/s/$1?k=v")})},
			[]request{{path: "/r/x/y"}, {path: "/r/x?gone=1"}},
		},
		{
			`location /w/ { rewrite ^/w/(.*)$ /new/$1?a=b break; proxy_pass http://UP/ignored/; }`,
			conf.Location{Path: "/w/",
				Steps: []conf.Step{conf.Rewrite{Pattern: "^/w/(.*)$", To: "/new/$1?a=b", Flag: "break"}},
				Proxy: pass(conf.Proxy{To: "UP", URI: text("/ignored/")})},
			[]request{{path: "/w/x%20y?c=d"}},
		},
		{
			`location /x/ { rewrite ^/x/(.*)$ /x/n/$1 break; proxy_pass http://UP; }`,
			conf.Location{Path: "/x/",
				Steps: []conf.Step{conf.Rewrite{Pattern: "^/x/(.*)$", To: "/x/n/$1", Flag: "break"}},
				Proxy: pass(conf.Proxy{To: "UP"})},
			[]request{{path: "/x/y%20z?c=d"}},
		},
		{
			`location /v { set $to UP; proxy_pass http://$to$request_uri; }`,
			conf.Location{Path: "/v", Steps: []conf.Step{conf.Set{Name: "to", Value: conf.Text(to)}},
				Proxy: pass(conf.Proxy{To: "$to", URI: text("$request_uri")})},
			[]request{{path: "/v/x%20y?c=d"}},
		},
		{
			`location /q { set $to UP; proxy_pass http://$to; }`,
			conf.Location{Path: "/q", Steps: []conf.Step{conf.Set{Name: "to", Value: conf.Text(to)}},
				Proxy: pass(conf.Proxy{To: "$to"})},
			[]request{{path: "/q//x%20y?c=d"}},
		},
		{
			`location /s { proxy_pass http://UP; proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Real-IP ""; proxy_set_header Accept-Encoding ""; proxy_set_header X-Uri $uri; proxy_set_header X-Empty $arg_none; proxy_set_header X-Goal "$proxy_host $proxy_port"; }`,
			conf.Location{Path: "/s", Proxy: pass(conf.Proxy{To: "UP", Header: []conf.Field{
				{Name: "Host", Value: "$host"}, {Name: "X-Forwarded-For", Value: "$proxy_add_x_forwarded_for"},
				{Name: "x-real-ip"}, {Name: "Accept-Encoding"}, {Name: "X-Uri", Value: "$uri"},
				{Name: "X-Empty", Value: "$arg_none"}, {Name: "X-Goal", Value: "$proxy_host $proxy_port"},
			}})},
			[]request{{path: "/s", fields: []string{"X-Real-Ip", "9.9.9.9", "X-Uri", "evil", "X-Empty", "evil",
				"X-Forwarded-For", "8.8.8.8"}}, {path: "/s/a%20b"}},
		},
		{
			`location /m { proxy_pass http://UP; proxy_method POST; proxy_set_body "[$arg_b]"; proxy_pass_request_headers off; }`,
			conf.Location{Path: "/m",
				Proxy: pass(conf.Proxy{To: "UP", Method: "POST", Body: text("[$arg_b]"), NoHeader: true})},
			[]request{{path: "/m?b=x", fields: []string{"X-A", "1"}}},
		},
		{
			`location /n { proxy_pass http://UP; proxy_pass_request_body off; proxy_set_header Content-Length ""; }`,
			conf.Location{Path: "/n",
				Proxy: pass(conf.Proxy{To: "UP", NoBody: true, Header: []conf.Field{{Name: "Content-Length"}}})},
			[]request{{method: "POST", path: "/n", body: "dropped"}},
		},
	}
	for _, c := range cases {
		nginx, _ := serveNginx(t, "", strings.ReplaceAll(strings.ReplaceAll(c.conf, "UP", to), "proxy_pass ",
			"proxy_http_version 1.1; proxy_pass "))
		ours := serveHandler(t, newFront(t, oneHost(c.location), quiet()))
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

// Clients receive the same responses as from nginx, by net/http's server and by tare's, which sends
// heads as they were received.
func TestResponsesAreNginxs(t *testing.T) {
	t.Run("net/http", func(t *testing.T) { responsesAreNginxs(t, serveHandler) })
	t.Run("tare", func(t *testing.T) { responsesAreNginxs(t, serveByTare) })
}

func responsesAreNginxs(t *testing.T, serveFront func(testing.TB, http.Handler) *testClient) {
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, pair := range strings.Split(r.URL.RawQuery, "&") {
			if name, value, ok := strings.Cut(pair, "="); ok {
				w.Header().Add(name, strings.NewReplacer("UP", r.Host, "+", " ").Replace(value))
			}
		}
		status := 200
		fmt.Sscanf(r.URL.Path, "/a/%d", &status)
		w.WriteHeader(status)
		if status != 304 && status != 204 {
			io.WriteString(w, "body of "+r.Method)
		}
	})
	text := conf.Text("/a/")
	base := conf.Proxy{To: conf.Text(to), URI: &text, Version: "1.1"}
	with := func(f func(p *conf.Proxy)) *conf.Proxy {
		p := base
		f(&p)
		return &p
	}
	file := site(t, "i/file.txt")
	cases := []struct {
		conf string
		pass *conf.Proxy
		line []string
	}{
		{"", &base, []string{
			"/l/200?X-A=1&X-A=2&Server=x&X-Pad=y&X-Accel-Expires=5&Etag=%22x%22", "HEAD /l/200?X-A=1",
			"/l/304?Etag=x", "/l/204", "/l/500", "/l/404",
			"/l/302?Location=http://UP/a/x?y", "/l/302?Location=/relative", "/l/302?Location=http://other/a/x",
			"/l/302?Location=x", "/l/200?Refresh=3;+url=http://UP/a/z",
			"/l/201?Location=http://UP/a/n", "/l/200?Set-Cookie=a=b;+Path=/a/x;+Domain=other.example",
			"/l/200?X-Accel-Redirect=/i/file.txt&Content-Type=x/y&X-Gone=1&Set-Cookie=c=d",
			"HEAD /l/200?X-Accel-Redirect=/i/file.txt", "/l/200?X-Accel-Redirect=@named&Content-Type=text/plain",
			"/l/200?X-Accel-Redirect=/i/../i/none", "/l/200?X-Accel-Redirect=/i/none",
			"POST /l/200?X-Accel-Redirect=/i/file.txt",
			"/l/200?X-Accel-Redirect=/l/200?X-B=1",
		}},
		{"proxy_hide_header X-A; proxy_pass_header Server; proxy_ignore_headers X-Accel-Redirect;",
			with(func(p *conf.Proxy) {
				p.Hide, p.Show, p.Ignore = []string{"X-A"}, []string{"Server"}, []string{"X-Accel-Redirect"}
			}), []string{"/l/200?X-A=1&X-B=2&X-Accel-Redirect=/i/file.txt"}},
		{"proxy_redirect off;", with(func(p *conf.Proxy) { p.NoRedirects = true }),
			[]string{"/l/302?Location=http://UP/a/x"}},
		{`proxy_redirect http://UP/a/ /elsewhere/; proxy_redirect ~^http://(\w+)\.example/(.*)$ https://$1.test/$2; proxy_redirect ~*^HTTP://CASE/ /case/;`, with(func(p *conf.Proxy) {
			p.Redirects = []conf.Replace{{From: "http://" + to + "/a/", To: "/elsewhere/"},
				{From: `~^http://(\w+)\.example/(.*)$`, To: "https://$1.test/$2"},
				{From: `~*^HTTP://CASE/`, To: "/case/"}}
		}), []string{"/l/302?Location=http://UP/a/x", "/l/302?Location=http://one.example/x",
			"/l/302?Location=http://case/gone", "/l/302?Location=http://no/x"}},
		{`proxy_cookie_domain other.example new.example; proxy_cookie_path /a/ /b/; proxy_cookie_path ~^/r/(.*)$ /s/$1;`, with(func(p *conf.Proxy) {
			p.CookieDomains = []conf.Replace{{From: "other.example", To: "new.example"}}
			p.CookiePaths = []conf.Replace{{From: "/a/", To: "/b/"}, {From: "~^/r/(.*)$", To: "/s/$1"}}
		}), []string{"/l/200?Set-Cookie=a=b;+Path=/a/x;+Domain=other.example",
			"/l/200?Set-Cookie=a=b;+path=/r/x;+domain=.OTHER.example;+Secure", "/l/200?Set-Cookie=a=b;+Path=/",
			"/l/200?Set-Cookie=a"}},
	}
	for _, c := range cases {
		block := strings.ReplaceAll(c.conf, "UP", to)
		nginx, _ := serveNginx(t, "", fmt.Sprintf(`location /l/ { proxy_http_version 1.1; proxy_pass http://%s/a/; %s }
location /i/ { internal; root %s; } location @named { return 202 named; }`, to, block, file))
		config := oneHost(
			conf.Location{Path: "/l/", Proxy: c.pass},
			conf.Location{Path: "/i/", Internal: true,
				Settings: &conf.Settings{Files: conf.Files{Root: conf.Text(file)}}},
			conf.Location{Match: "@", Path: "@named",
				Steps: []conf.Step{conf.Return{Status: 202, Text: "named"}}},
		)
		config.Hosts[0].Names = []string{"front.test"}
		ours := serveFront(t, newFront(t, config, quiet()))
		for _, q := range c.line {
			method, path, ok := strings.Cut(q, " ")
			if !ok {
				method, path = "GET", q
			}
			path = strings.ReplaceAll(path, "UP", to)
			want, got := nginx.do(method, path, nil), ours.do(method, path, nil)
			for _, h := range []http.Header{want.header, got.header} {
				for _, name := range []string{"Date", "Connection", "Content-Length", "Last-Modified"} {
					h.Del(name)
				}
				if h.Get("Server") != "x" && !strings.Contains(c.conf, "Server") {
					h.Del("Server")
				}
				if strings.Contains(path, "file.txt") {
					h.Del("Etag")
				}
			}
			if strings.Contains(want.body, "<html>") { // built-in pages name the server
				want.body, got.body = "", strings.Repeat("", len(got.body))
				want.header.Del("Content-Type")
				got.header.Del("Content-Type")
			}
			if want.status != got.status || want.body != got.body || fmt.Sprint(want.header) != fmt.Sprint(got.header) {
				t.Errorf("%s %s: %d %v %q\n want %d %v %q", c.conf, q, got.status, got.header, got.body, want.status,
					want.header, want.body)
			}
		}
	}
}

// Applications receive the same parameters as from nginx.
func TestFastCGIParametersAreNginxs(t *testing.T) {
	to := application(t, nil, "")
	params := func(more ...string) (lines string, all []conf.Param) {
		for _, p := range append([]string{
			"SCRIPT_FILENAME /www$fastcgi_script_name", "PATH_INFO $fastcgi_path_info",
			"SCRIPT_NAME $fastcgi_script_name", "REQUEST_URI $request_uri", "DOCUMENT_URI $document_uri",
			"QUERY_STRING $query_string",
			"REQUEST_METHOD $request_method", "CONTENT_TYPE $content_type", "CONTENT_LENGTH $content_length",
			"SERVER_PROTOCOL $server_protocol", "REQUEST_SCHEME $request_scheme_",
			"HTTPS $https if_not_empty", "SERVER_NAME $server_name",
		}, more...) {
			p = strings.ReplaceAll(p, "$request_scheme_", "$scheme")
			words := strings.Fields(p)
			lines += "fastcgi_param " + p + ";\n"
			all = append(all, conf.Param{Name: words[0], Value: conf.Text(words[1]), IfNotEmpty: len(words) == 3})
		}
		return lines, all
	}
	lines, all := params()
	hidden, allHidden := params("HTTP_X_A set")
	for _, c := range []struct {
		conf string
		pass conf.Proxy
	}{
		{lines, conf.Proxy{Params: all}},
		{lines + "fastcgi_index index.php;", conf.Proxy{Params: all, ParamIndex: "index.php"}},
		{lines + `fastcgi_split_path_info ^(.+?\.php)(/.*)$; fastcgi_index i.php;`,
			conf.Proxy{Params: all, SplitPath: `^(.+?\.php)(/.*)$`, ParamIndex: "i.php"}},
		{hidden, conf.Proxy{Params: allHidden}},
		{lines + "fastcgi_pass_request_headers off; fastcgi_pass_request_body off;",
			conf.Proxy{Params: all, NoHeader: true, NoBody: true}},
	} {
		nginx, _ := serveNginx(t, "", "server_name front.test; location / { fastcgi_pass "+to+"; "+c.conf+" }")
		c.pass.To, c.pass.Protocol = conf.Text(to), "fastcgi"
		config := proxyTo(c.pass)
		config.Hosts[0].Names = []string{"front.test"}
		ours := serveHandler(t, newFront(t, config, quiet()))
		for _, q := range []struct{ method, path, body string }{
			{"GET", "/", ""}, {"GET", "/a.php/x/y?q=1", ""}, {"GET", "/a%20b.php?x=%20", ""},
			{"POST", "/d/", "hello"}, {"POST", "/long.php", pattern(100_000)}, {"HEAD", "/a.PHP/x", ""},
			{"GET", "/x.php/y.php/z", ""},
		} {
			fields := []string{"X-A", "1", "X-A", "2", "Proxy", "http://evil", "X_A", "evil", "Cookie", "a=b",
				"Content-Type", "text/x"}
			want, got := nginx.do(q.method, q.path, strings.NewReader(q.body), fields...),
				ours.do(q.method, q.path, strings.NewReader(q.body), fields...)
			var their, our map[string]string
			_ = json.Unmarshal([]byte(want.body), &their)
			_ = json.Unmarshal([]byte(got.body), &our)
			delete(their, "HTTP_PROXY") // which nginx forwards
			for _, m := range []map[string]string{their, our} {
				if m["HTTP_X_A"] == "2" { // nginx 1.22 sends two, newer versions the list
					m["HTTP_X_A"] = "1, 2"
					delete(m, "(twice)")
				}
			}
			if want.status != got.status || !maps.Equal(their, our) || want.header.Get("X-A") != got.header.Get("X-A") {
				t.Errorf("%s\n%s %s: %d\n%v, want %d\n%v", c.conf, q.method, q.path, got.status,
					difference(our, their), want.status, difference(their, our))
			}
		}
	}
}

// difference returns the entries of one map that the other lacks.
func difference(a, b map[string]string) (all []string) {
	for name, value := range a {
		if other, ok := b[name]; !ok || other != value {
			all = append(all, fmt.Sprintf("%s=%q", name, value))
		}
	}
	slices.Sort(all)
	return all
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
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	programs.Start(t, "unix", socket, env, path, "-R", "-n", "-F", "-y", filepath.Join(dir, "conf"), "-p", dir)
	params := []conf.Param{
		{Name: "SCRIPT_FILENAME", Value: "$document_root$fastcgi_script_name"},
		{Name: "SCRIPT_NAME", Value: "$fastcgi_script_name"}, {Name: "PATH_INFO", Value: "$fastcgi_path_info",
			IfNotEmpty: true},
		{Name: "REQUEST_URI", Value: "$request_uri"}, {Name: "QUERY_STRING", Value: "$query_string"},
		{Name: "REQUEST_METHOD", Value: "$request_method"}, {Name: "CONTENT_TYPE", Value: "$content_type"},
		{Name: "CONTENT_LENGTH", Value: "$content_length"}, {Name: "SERVER_PROTOCOL", Value: "$server_protocol"},
	}
	settings := conf.Settings{Files: conf.Files{Root: conf.Text(root), Index: []conf.Text{"index.php"}},
		MaxBody: -1}
	pass := conf.Proxy{To: conf.Text("unix:" + socket), Protocol: "fastcgi", Params: params,
		SplitPath: `^(.+\.php)(/.+)$`, ParamIndex: "index.php"}
	a := serveHandler(t, newFront(t, oneHost(
		conf.Location{Path: "/", TryFiles: []conf.Text{"$uri", "$uri/", "/index.php?$args"}, Settings: &settings},
		conf.Location{Match: "~", Path: `\.php(/|$)`, Proxy: &pass, Settings: &settings},
	), quiet()))
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

// A named location in X-Accel-Redirect gets the request unchanged; a path is requested by GET.
func TestAccelRedirectKeepsMethodForNamedLocation(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if target := r.Header.Get("X-To"); target != "" {
			w.Header().Set("X-Accel-Redirect", target)
			return
		}
		fmt.Fprintf(w, "%s %q", r.Method, b)
	})
	second := conf.Proxy{To: conf.Text(to), Header: []conf.Field{{Name: "X-To"}}}
	us := serveHandler(t, newFront(t, oneHost(
		conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to)}},
		conf.Location{Match: "@", Path: "@b", Proxy: &second}, conf.Location{Path: "/b", Proxy: &second},
	), quiet()))
	theirs, _ := serveNginx(t, "", fmt.Sprintf(`location / { proxy_pass http://%[1]s; } location @b { proxy_set_header X-To ""; proxy_pass http://%[1]s; }`, to))
	for _, method := range []string{"GET", "POST", "PUT"} {
		want := theirs.do(method, "/x", strings.NewReader("body"), "X-To", "@b")
		if got := us.do(method, "/x", strings.NewReader("body"), "X-To", "@b"); got.status != 200 ||
			got.body != want.body {
			t.Errorf("%s: %d %q, nginx %q", method, got.status, got.body, want.body)
		}
		// nginx sends the body
		if got := us.do(method, "/x", strings.NewReader("body"), "X-To", "/b"); method != "GET" &&
			got.body != `GET ""` {
			t.Errorf("%s to a path: %q", method, got.body)
		}
	}
}
