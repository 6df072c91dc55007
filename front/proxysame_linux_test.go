package front_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// A PHP application in a usual configuration: existing files are served, and other paths go to the
// front controller.
func TestPHPApplicationIsServed(t *testing.T) {
	path, env := programs.PHP(t)
	dir := testkit.ShortDir(t)
	socket := filepath.Join(dir, "php")
	for name, text := range map[string]string{
		"www/index.php": `<?php echo 'front ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['QUERY_STRING'];`,
		"www/info.php":  `<?php header('X-Many: one'); header('X-Many: two', false); http_response_code(201); echo $_SERVER['PATH_INFO'] ?? 'none', ' ', $_SERVER['REQUEST_METHOD'], ' ', strlen(file_get_contents('php://input')), ' ', $_SERVER['HTTP_PROXY'] ?? 'safe';`,
		"www/log.php":   `<?php error_log('oops'); echo 'body';`, "www/style.css": "css", "www/evil.jpg": "<?php echo 'run';",
		"conf": "[global]\ndaemonize = no\nerror_log = /dev/stderr\n[www]\npm = static\npm.max_children = 2\nlisten = " +
			socket + "\nuser = root\n",
	} {
		testkit.WriteFile(t, filepath.Join(dir, name), text)
	}
	programs.Start(t, "unix", socket, env, path, "-R", "-n", "-F", "-y", filepath.Join(dir, "conf"), "-p", dir)
	a := serveConf(t, "", fmt.Sprintf(`root %s/www; index index.php; client_max_body_size 0;
		location / { try_files $uri $uri/ /index.php?$args; }
		location ~ \.php(/|$) { fastcgi_pass unix:%s; fastcgi_split_path_info ^(.+\.php)(/.+)$; fastcgi_index index.php;
			fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param SCRIPT_NAME $fastcgi_script_name;
			fastcgi_param PATH_INFO $fastcgi_path_info if_not_empty; fastcgi_param REQUEST_URI $request_uri;
			fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
			fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
			fastcgi_param SERVER_PROTOCOL $server_protocol; }`, dir, socket))
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
	if got := a.get("/evil.jpg/x.php"); got.status == 200 && strings.Contains(got.body, "run") {
		t.Errorf("a picture was run: %d %q", got.status, got.body)
	}
}

// sameAddresses returns the servers that requests tried, one request after another. They are the same
// with nginx.
func sameAddresses(t *testing.T, outer, server string, paths []string) (all []string) {
	t.Helper()
	theirs, ours := besideNginx(t, outer, server)
	for i, path := range paths {
		_, key, _ := strings.Cut(path, "=")
		addrs := func(a *testClient) string { return a.get(path, "X-Real-Ip", key).header.Get("X-Addr") }
		all = append(all, addrs(ours))
		testkit.Equal(t, all[i], addrs(theirs), path, "request", i)
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
			for n := range 50 {
				key := fmt.Sprintf("%d.%d.%d.%d", n, n*n%256, n*77%256, n)
				if n%3 == 0 {
					key = fmt.Sprintf("2001:db8:%x::%x", n, n*n)
				}
				paths = append(paths, "/"+name+"?key="+key)
			}
		}
	}
	upstreams := strings.ReplaceAll(outer.String(), "SOCKET", socket)
	counts := make(map[string]int)
	for _, addrs := range sameAddresses(t, upstreams, server.String(), paths) {
		counts[addrs]++
	}
	testkit.Between(t, len(counts), 4, len(paths), "combinations of addresses")
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
	sameAddresses(t, outer, server, paths)
}

// cacheCase is a list of requests for which the cache and nginx behave alike, besides those of the
// corpus. Excluded is what RFC 9111 and RFC 5861 require otherwise: Age, Authorization,
// must-revalidate, stale-if-error of a status, ranges without Accept-Ranges, status 416, and an Expires
// in no format of RFC 9110.
type cacheCase struct {
	directives, fields string   // fields of the upstream's response, between ";"
	requests           []string // "FIELD: VALUE;…", after another "METHOD /"; by default two without fields
	later              int      // status of responses two seconds later, or 0: then nothing is requested
}

func cacheCases() []cacheCase {
	const seconds, hour, etag = "Cache-Control: max-age=2", "Cache-Control: max-age=3600", `Etag: "v1"`
	const modified, before = "Fri, 31 Dec 1999 00:00:00 GMT", "Thu, 30 Dec 1999 00:00:00 GMT"
	const valid = "proxy_cache_valid 200 1h; proxy_cache_valid 404 2s; proxy_cache_valid 302 0;"
	const revalidate, stale = "proxy_cache_revalidate on;", "proxy_cache_use_stale http_503 http_404;"
	var all []cacheCase
	for _, expires := range []string{
		"Thu, 01 Jan 2099 00:00:00 GMT", "Sunday, 01-Jan-68 00:00:00 GMT", "Thu Jan  1 00:00:00 2099",
		"Thu,  01  Jan 2099 00:00:00 GMT", "Thu, 01 Jan 2099 0:00:00 GMT", "Thu, 1 Jan 2099 00:00:00 GMT",
		"Fri, 01 Jan 2099 00:00:00 GMT", "thu, 01 JAN 2099 00:00:00 gMT",
		"Thu, 01 Jan 2099 00:00 GMT", "4070908800",
	} {
		all = append(all, cacheCase{fields: "Expires: " + expires})
	}
	for _, status := range []int{200, 203, 204, 301, 404, 410, 500, 503} {
		all = append(all, cacheCase{fields: fmt.Sprintf("status: %d;%s", status, hour)})
	}
	return append(all, []cacheCase{
		{fields: seconds, later: 200}, {fields: seconds, later: 503}, {fields: seconds + ";" + etag, later: 200},
		{directives: valid, later: 200}, {directives: valid, fields: "status: 404", later: 404},
		{directives: valid, fields: "status: 302;Location: /"}, {directives: valid, fields: "status: 410"},
		{directives: valid, fields: "Cache-Control: max-age=0"}, {directives: valid, fields: "Expires: 0"},
		{fields: "Cache-Control: max-age=0, s-maxage=60"}, {fields: hour + ";Cache-Control: private"},
		{fields: "Expires: Sat, 01 Jan 2100 00:00:00 gmt"}, {fields: "Expires: Mon Jan  1 00:00:00 2099"},
		{fields: hour + ";Expires: 0"}, {directives: valid, fields: "X-Accel-Expires: 0"},
		{fields: "X-Accel-Expires: @4070908800"}, {fields: "X-Accel-Expires: @1;" + hour, later: 200},
		{directives: stale, fields: "X-Accel-Expires: @1", later: 503}, {fields: "X-Accel-Expires: @0;" + hour},
		{fields: "X-Accel-Expires: @x;" + hour}, {fields: "X-Accel-Expires: -1;" + hour},
		{fields: "X-Accel-Expires: 2;Expires: Thu, 01 Jan 2099 00:00:00 GMT", later: 200}, {fields: "status: 204;" + hour},
		{fields: hour + ";Vary: Accept-Encoding, X", requests: []string{"X: 1", "X: 2", "X: 1", "X: 2", "", "",
			"X: 1;Accept-Encoding: gzip, br", "X: 1;Accept-Encoding: gzip,br"}},
		// The lock of these and others: a client has its 304, head or byte before the whole response is in
		// the cache.
		{directives: "proxy_cache_lock on;", fields: hour + ";" + etag, requests: []string{
			`If-None-Match: "v1"`, `If-None-Match: "v1"`, `If-None-Match: W/"v1"`, `If-None-Match: "v2"`, `If-None-Match: "v2", "v1"`, "If-None-Match: *", `If-Match: "v1"`}},
		{fields: etag, requests: []string{`If-None-Match: "v1"`}},
		{fields: hour + ";" + etag + ";Last-Modified: " + modified, requests: []string{"",
			"If-Unmodified-Since: " + before, `If-Match: "v2"`, "If-Modified-Since: " + before, "If-Modified-Since: " + modified,
			`If-None-Match: "v2";If-Modified-Since: ` + modified, `If-None-Match: "v0", "v1"`}},
		{directives: "proxy_cache_lock on;", fields: hour, requests: []string{
			"HEAD /", "", "HEAD /", "OPTIONS /", ""}},
		{fields: hour + ";X-Private: 1", requests: []string{"", "", ""}}, {fields: hour + ";X-Class: personal"},
		{fields: hour + ";X-Class: public"},
		{directives: "proxy_cache_lock on;", fields: hour + ";" + etag + ";Accept-Ranges: bytes", requests: []string{"Range: bytes=0-0", "", "Range: bytes=0-0",
			"Range: bytes=-1", "Range: bytes=900000-", `Range: bytes=2-4;If-None-Match: "v1"`, `Range: bytes=0-0;If-Range: "v1"`, `Range: bytes=0-0;If-Range: "v2"`}},
		{directives: revalidate, fields: seconds + ";" + etag + ";Last-Modified: " + modified, later: 304},
		{directives: revalidate, fields: seconds + ";" + etag, later: 200},
		{directives: stale, fields: seconds, later: 503}, {directives: stale, fields: seconds, later: 404},
		{directives: stale, fields: seconds, later: 502}, {directives: "proxy_cache_lock on;", fields: hour},
		{directives: "proxy_cache_min_uses 2;", fields: hour, requests: []string{"", "", ""}},
		{fields: hour, requests: []string{"", "Skip: 1", "", "Skip: 1;Keep: no", ""}},
		{fields: hour, requests: []string{"Keep: no", "", ""}},
	}...)
}

// startCounted starts an upstream for cases. Its responses have the number of requests so far, and
// are long if they may be requested in ranges. Once late is set, they have the later status.
func startCounted(t *testing.T, cases []cacheCase, late *atomic.Bool) (addr string) {
	counts := make([]atomic.Int64, len(cases))
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		var i int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &i)
		status := 200
		for field := range strings.SplitSeq(cases[i].fields, ";") {
			if name, value, _ := strings.Cut(field, ": "); name == "status" {
				_, _ = fmt.Sscan(value, &status)
			} else if name != "" {
				w.Header().Add(name, value)
			}
		}
		n := counts[i].Add(1)
		if c := cases[i]; late.Load() && (c.later != 304 || r.Header.Get("If-None-Match") != "") && c.later != 200 {
			status = c.later
			w.Header().Set("Cache-Control", map[bool]string{true: "max-age=60"}[status == 304])
		}
		body := fmt.Sprint(n)
		if strings.Contains(cases[i].fields, "Accept-Ranges") {
			body += strings.Repeat("x", 500_000)
		}
		if status == 204 || status == 304 {
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func TestCacheBehavesLikeNginx(t *testing.T) {
	t.Parallel()
	cases := cacheCases()
	var late atomic.Bool
	conf := func() string {
		up := startCounted(t, cases, &late)
		text := `proxy_cache z; proxy_cache_key $uri; proxy_http_version 1.1; proxy_cache_bypass $http_skip;
			proxy_no_cache $http_keep $upstream_http_x_private $personal; add_header X-Cache $upstream_cache_status always;`
		for i, c := range cases {
			text += fmt.Sprintf("\nlocation /%d { %s proxy_pass http://%s; }", i, c.directives, up)
		}
		return text
	}
	const outer = "proxy_cache_path DIR/cache keys_zone=z:1m; map $upstream_http_x_class $personal { personal 1; default 0; }"
	theirs, _ := serveNginx(t, outer, conf())
	ours := serveConf(t, outer, conf())
	send := func(i int, request string) {
		t.Helper()
		shown := func(a *testClient) string {
			method, fields, isOther := strings.Cut(request, " /")
			if !isOther {
				method, fields = "GET", request
			}
			got := a.do(method, fmt.Sprint("/", i), nil, append(fieldsOf(fields), "Accept-Encoding", "identity")...)
			if got.status == http.StatusRequestedRangeNotSatisfiable || got.status == http.StatusPreconditionFailed {
				got.body, got.header["Etag"] = "", nil
			}
			return fmt.Sprintf("%d %s %d bytes %.9q range %q etag %s", got.status, got.header.Get("X-Cache"), len(got.body),
				got.body, got.header.Get("Content-Range"), got.header.Get("Etag"))
		}
		if got, want := shown(ours), shown(theirs); got != want {
			t.Errorf("%+v: %q\n nginx: %s\n  tare: %s", cases[i], request, want, got)
		}
	}
	for i, c := range cases {
		if c.requests == nil {
			c.requests = []string{"", ""}
		}
		for _, request := range c.requests {
			send(i, request)
		}
	}
	time.Sleep(3 * time.Second) // the passing time is the subject; nginx counts in seconds
	late.Store(true)
	for i, c := range cases {
		for range 2 * min(c.later, 1) {
			send(i, "")
		}
	}
}
