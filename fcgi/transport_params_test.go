package fcgi_test

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/testkit"
)

// paramsOf returns the parameters that an application receives for a request. The application is
// that of a copy of the Transport, whose settings must not change after the first use.
func paramsOf(t *testing.T, tr *fcgi.Transport, r *http.Request) map[string]string {
	t.Helper()
	got := make(chan map[string]string, 1)
	tr = checked(t, &fcgi.Transport{
		Addr: "pipe:1", Root: tr.Root, Script: tr.Script, SplitPath: tr.SplitPath, Index: tr.Index, Params: tr.Params,
		DialContext: piped(t, func(p *peer) {
			if r := p.request(); r != nil {
				testkit.Equal(t, p.keeps, false, "FCGI_KEEP_CONN without idle connections")
				got <- r
				p.respond("\n")
			}
		}),
	})
	testkit.Value(tr.RoundTrip(r))(t).Body.Close()
	sent := <-got
	testkit.Equal(t, sent["(twice)"], "", "parameters that are sent twice")
	return sent
}

// The Transport's fields determine what a path means. An empty value means that a parameter is not
// sent.
func TestPathBecomesScriptAndPathInfo(t *testing.T) {
	const www = "/var/www"
	php := &fcgi.Transport{Root: www, SplitPath: ".php"}
	front := &fcgi.Transport{Root: www, Script: "/index.php"}
	for _, test := range []struct {
		tr                       *fcgi.Transport
		path                     string
		filename, name, info, is string // SCRIPT_FILENAME, SCRIPT_NAME, PATH_INFO, DOCUMENT_URI
	}{
		{&fcgi.Transport{}, "", "", "", "/", "/"},
		{&fcgi.Transport{}, "/a/b.php", "", "", "/a/b.php", "/a/b.php"},
		{&fcgi.Transport{}, "/a/../b", "", "", "/a/../b", "/a/../b"}, // not a file name
		{&fcgi.Transport{Root: www}, "/a.php", www + "/a.php", "/a.php", "", "/a.php"},
		{&fcgi.Transport{Root: www + "/"}, "/a.php/b", www + "/a.php/b", "/a.php/b", "", "/a.php/b"},
		{&fcgi.Transport{Root: www}, "", www + "/index.php", "/index.php", "", "/index.php"},
		{&fcgi.Transport{Root: www, Index: "main.cgi"}, "/d/", www + "/d/main.cgi", "/d/main.cgi", "", "/d/main.cgi"},
		{php, "/", www + "/index.php", "/index.php", "", "/index.php"},
		{php, "/a.php", www + "/a.php", "/a.php", "", "/a.php"},
		{php, "/a.php/", www + "/a.php", "/a.php", "/", "/a.php/"},
		{php, "/d/a.php/b/c", www + "/d/a.php", "/d/a.php", "/b/c", "/d/a.php/b/c"},
		{php, "/a.php/b.php/c", www + "/a.php", "/a.php", "/b.php/c", "/a.php/b.php/c"},
		{php, "/a.phps/b.php", www + "/a.phps/b.php", "/a.phps/b.php", "", "/a.phps/b.php"},
		{php, "/a.php.jpg", www + "/a.php.jpg", "/a.php.jpg", "", "/a.php.jpg"},
		{php, "/a.PHP/b", www + "/a.PHP/b", "/a.PHP/b", "", "/a.PHP/b"},
		{php, "/d/", www + "/d/index.php", "/d/index.php", "", "/d/index.php"},
		{php, "/..a/b..php/.c", www + "/..a/b..php", "/..a/b..php", "/.c", "/..a/b..php/.c"},
		{front, "", www + "/index.php", "/index.php", "", "/index.php"},
		{front, "/posts/1", www + "/index.php", "/index.php", "", "/index.php"},
		{front, "/index.php/posts/1", www + "/index.php", "/index.php", "/posts/1", "/index.php/posts/1"},
		{front, "/index.phpx", www + "/index.php", "/index.php", "", "/index.php"},
		{&fcgi.Transport{Script: "/app"}, "/app/x", "", "/app", "/x", "/app/x"},
	} {
		r := get(t, address)
		r.URL.Path = test.path
		got := paramsOf(t, test.tr, r)
		for name, want := range map[string]string{
			"SCRIPT_FILENAME": test.filename, "SCRIPT_NAME": test.name, "PATH_INFO": test.info, "DOCUMENT_URI": test.is,
			"DOCUMENT_ROOT": test.tr.Root, "REQUEST_URI": r.URL.RequestURI(),
		} {
			if value, sent := got[name]; value != want || sent != (want != "" || name == "SCRIPT_NAME") {
				t.Errorf("%q with root %q and script %q: %s is %q, want %q", test.path, test.tr.Root, test.tr.Script,
					name, value, want)
			}
		}
	}
}

// A request with an invalid path, target, host or field is not sent.
func TestInvalidRequestsAreNotSent(t *testing.T) {
	change := func(f func(*http.Request)) *http.Request {
		r := get(t, address+"a.php")
		f(r)
		return r
	}
	path := func(p string) *http.Request { return change(func(r *http.Request) { r.URL.Path = p }) }
	for _, test := range []struct {
		r    *http.Request
		want string
	}{
		{path("/../etc/passwd"), `".." segment`},
		{path("/a.php/.."), `".." segment`},
		{path("/a/../../b.php"), `".." segment`},
		{path(`/a\..\..\b.php`), `".." segment`},
		{path(`/..\b.php`), `".." segment`},
		{get(t, address+"%2e%2e/b.php"), `".." segment`},
		{get(t, address+"a%2f..%2f..%2fb.php"), `".." segment`},
		{get(t, address+"a.jpg%00.php"), "control byte"},
		{get(t, address+"a%0a.php"), "control byte"},
		{get(t, address+"a%7f.php"), "control byte"},
		{path("a.php"), "no slash"},
		{path("*"), "no slash"},
		{change(func(r *http.Request) { r.URL.RawQuery = "a b" }), "request target"},
		{change(func(r *http.Request) { r.URL.RawQuery = "a\x00b" }), "request target"},
		{change(func(r *http.Request) { r.URL.Opaque = "//elsewhere/x" }), "request target"},
		{change(func(r *http.Request) { r.URL = nil }), "nil Request.URL"},
		{change(func(r *http.Request) { r.Method = "CONNECT" }), "CONNECT"},
		{change(func(r *http.Request) { r.Method = "A B" }), "invalid method"},
		{change(func(r *http.Request) { r.Host = "a/b" }), "invalid host"},
		{change(func(r *http.Request) { r.Host = "a\nb" }), "invalid host"},
		{change(func(r *http.Request) { r.Header["A B"] = []string{"x"} }), "invalid header field name"},
		{change(func(r *http.Request) { r.Header["Ä"] = []string{"x"} }), "invalid header field name"},
		{change(func(r *http.Request) { r.Header["A"] = []string{"x\x00"} }), "invalid header field value"},
		{change(func(r *http.Request) { r.Header["A"] = []string{"x", "y\nz"} }), "invalid header field value"},
	} {
		body := newClosable(strings.NewReader("of the request"))
		test.r.Body, test.r.ContentLength = body, 14
		tr := checked(t, &fcgi.Transport{Addr: "/none", Root: "/var/www",
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				t.Errorf("%+v: connected", test.r.URL)
				return nil, errWanted
			}})
		_, err := tr.RoundTrip(test.r)
		testkit.Error(t, err, test.want, test.r.URL)
		testkit.Error(t, err, "fcgi: ", test.r.URL)
		<-body.closed
	}
}

// All parameters of a request that a server has received.
func TestServerRequestBecomesParams(t *testing.T) {
	r := newRequest(t, "POST", "https://app.example:8443/d%20e/a.php/i%6efo?q=1&r=%00", strings.NewReader("body"))
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
		&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8080}))
	r.RemoteAddr = "[2001:db8::7]:1234"
	r.RequestURI = "/as/the/client/sent/it"
	r.Host = "www.example:99"
	r.TLS = new(tls.ConnectionState)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	r.Header = http.Header{
		"Content-Type": {"text/x"}, "Content-Length": {"77"}, "Host": {"spoofed"}, "Cookie": {"a=1", "b=2"},
		"X-Many": {"one", "two"}, "User-Agent": {""}, "Empty": {""}, "None": {}, "X-9": {"Ä\xff"},
		"Authorization": {"Basic eDp5"}, "Connection": {"x"}, "Keep-Alive": {"x"}, "Te": {"trailers"},
		"Transfer-Encoding": {"x"}, "Trailer": {"X"}, "Upgrade": {"x"}, "Expect": {"x"}, "Proxy-Connection": {"x"},
		"lower-case": {"is upper"},
	}
	want := map[string]string{
		"SCRIPT_FILENAME": "/srv/d e/a.php", "DOCUMENT_ROOT": "/srv", "SCRIPT_NAME": "/d e/a.php",
		"PATH_INFO": "/info", "DOCUMENT_URI": "/d e/a.php/info", "REQUEST_METHOD": "POST",
		"REQUEST_URI": "/d%20e/a.php/i%6efo?q=1&r=%00", "QUERY_STRING": "q=1&r=%00", "SERVER_PROTOCOL": "HTTP/2.0",
		"CONTENT_LENGTH": "4", "CONTENT_TYPE": "text/x", "HTTPS": "on", "REQUEST_SCHEME": "https",
		"HTTP_HOST": "www.example:99", "SERVER_NAME": "www.example", "SERVER_PORT": "8080",
		"SERVER_ADDR": "192.0.2.1", "REMOTE_ADDR": "2001:db8::7", "REMOTE_PORT": "1234", "SERVER_SOFTWARE": "tare",
		"GATEWAY_INTERFACE": "CGI/1.1", "REDIRECT_STATUS": "200", "HTTP_COOKIE": "a=1; b=2",
		"HTTP_X_MANY": "one, two", "HTTP_EMPTY": "", "HTTP_X_9": "Ä\xff", "HTTP_AUTHORIZATION": "Basic eDp5",
		"HTTP_LOWER_CASE": "is upper",
	}
	got := paramsOf(t, &fcgi.Transport{Root: "/srv", SplitPath: ".php"}, r)
	testkit.Equal(t, got, want)
}

// Unknown values are not made up. The others are derived from the URL.
func TestUnknownParamsAreOmitted(t *testing.T) {
	for _, test := range []struct {
		url, host, remote string
		// HTTP_HOST, SERVER_NAME, SERVER_PORT, REQUEST_SCHEME, HTTPS, REMOTE_ADDR, REMOTE_PORT
		want string
	}{
		{"http://h/", "", "", `h|h|80|http|-|-|-`},
		{"https://h/", "", "", `h|h|443|https|on|-|-`},
		{"fcgi://h:9000/", "", "", `h:9000|h|9000|http|-|-|-`},
		{"http://h/", "h:", "", `h:|h|80|http|-|-|-`},
		{"http://h/", "other:1", "", `other:1|other|1|http|-|-|-`},
		{"http://[::1]/", "", "", `[::1]|[::1]|80|http|-|-|-`},
		{"http://[::1]:9/", "", "", `[::1]:9|[::1]|9|http|-|-|-`},
		{"http://[fe80::1%25eth0]:9/", "", "", `[fe80::1]:9|[fe80::1]|9|http|-|-|-`},
		{"/", "", "", `-|localhost|80|http|-|-|-`},
		{"http://h/", "", "192.0.2.1:5", `h|h|80|http|-|192.0.2.1|5`},
		{"http://h/", "", "192.0.2.1", `h|h|80|http|-|192.0.2.1|-`},
		{"http://h/", "", "[::1]:7", `h|h|80|http|-|::1|7`},
		{"http://h/", "", "@", `h|h|80|http|-|-|-`},
		{"http://h/", "", "localhost:5", `h|h|80|http|-|-|-`},
	} {
		r := get(t, test.url)
		if test.host != "" {
			r.Host = test.host
		}
		r.RemoteAddr = test.remote
		got := paramsOf(t, &fcgi.Transport{}, r)
		var values []string
		for _, name := range []string{"HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "REQUEST_SCHEME", "HTTPS",
			"REMOTE_ADDR", "REMOTE_PORT"} {
			value, sent := got[name]
			if !sent {
				value = "-"
			}
			values = append(values, value)
		}
		testkit.Equal(t, strings.Join(values, "|"), test.want, test.url, "host", test.host, "from", test.remote)
	}
}

// No field of a client becomes a parameter with another meaning. The worst names are those that
// servers or PHP change into others.
func TestFieldsCannotSpoofParams(t *testing.T) {
	evil, good := []string{"evil"}, []string{"good"}
	for what, header := range map[string]http.Header{
		"httpoxy":                 {"Proxy": evil, "proxy": evil},
		"underscore":              {"X_User": evil},
		"beside the field itself": {"X_User": evil, "X.User": evil, "X!User": evil, "X~User": evil, "X-User": good},
		"of the request": {"Content-Length": evil, "Content_Length": evil, "Content_Type": evil, "Host": evil,
			"host": evil, "SCRIPT_FILENAME": evil, "REMOTE_ADDR": evil, "Remote_User": evil, "PHP_VALUE": evil},
		"harmless": {"PHP-VALUE": good, "Php-Admin-Value": good, "Script-Filename": good, "Remote-Addr": good},
	} {
		r := get(t, address)
		r.Header = header
		got := paramsOf(t, &fcgi.Transport{}, r)
		for param, value := range got {
			if value == "evil" || value == "good" && !strings.HasPrefix(param, "HTTP_") {
				t.Errorf("%s: %s is %q", what, param, value)
			}
		}
		if header["X-User"] != nil {
			testkit.Equal(t, got["HTTP_X_USER"], "good")
		}
	}
}

// The hook receives all parameters, and can change them.
func TestParamsHookMayChangeParams(t *testing.T) {
	var seen map[string]string
	long := strings.Repeat("long", 50_000) // more than a record can hold
	tr := &fcgi.Transport{Params: func(r *http.Request, p *fcgi.Params) {
		seen = maps.Collect(p.All())
		if r.Method != "GET" || p.Get("REQUEST_METHOD") != "GET" || p.Get("NONE") != "" {
			t.Errorf("%s, %q", r.Method, seen)
		}
		for range p.All() {
			break
		}
		p.Set("REQUEST_URI", r.RequestURI)
		p.Set("LONG", long)
		p.Set("EMPTY", "")
		p.Set("PHP_VALUE", "memory_limit=1G")
		p.Del("SERVER_SOFTWARE")
		p.Del("NONE")
	}}
	r := get(t, address+"new")
	r.RequestURI = "/old"
	got := paramsOf(t, tr, r)
	want := maps.Clone(seen)
	want["REQUEST_URI"], want["LONG"], want["EMPTY"], want["PHP_VALUE"] = "/old", long, "", "memory_limit=1G"
	delete(want, "SERVER_SOFTWARE")
	testkit.Equal(t, got, want)
}
