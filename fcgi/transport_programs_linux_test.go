package fcgi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// php starts php-fpm with two processes, and returns a Transport to it. more is added to its
// configuration.
func php(t *testing.T, scripts map[string]string, more string) *fcgi.Transport {
	t.Helper()
	path, env := programs.PHP(t)
	dir := t.TempDir()
	root := filepath.Join(dir, "www")
	for name, script := range scripts {
		testkit.WriteFile(t, filepath.Join(root, name), script)
	}
	me := testkit.Value(user.Current())(t)
	socket, conf := filepath.Join(dir, "s"), filepath.Join(dir, "fpm.conf")
	text := "[global]\ndaemonize = no\nerror_log = /dev/stderr\n[www]\npm = static\npm.max_children = 2\nlisten = " +
		socket + "\n" +
		"php_admin_flag[display_errors] = off\nphp_admin_value[post_max_size] = 64M\n"
	if os.Getuid() == 0 {
		text += "user = " + me.Username + "\n"
	}
	testkit.Must(t, os.WriteFile(conf, []byte(text+more), 0o644))
	// -R lets it run as root, as tests do in containers.
	programs.Start(t, "unix", socket, env, path, "-R", "-n", "-F", "-y", conf, "-p", dir)
	return checked(t, &fcgi.Transport{Addr: socket, Root: root, SplitPath: ".php", MaxConnsPerHost: 2,
		MaxIdleConnsPerHost: 2})
}

const dump = `<?php
header('Content-Type: application/json');
echo json_encode(['server' => $_SERVER, 'post' => $_POST, 'cookie' => $_COOKIE,
	'body' => file_get_contents('php://input')]);
`

// dumped is the output of the script dump.
type dumped struct {
	Server       map[string]any
	Post, Cookie any
	Body         string
}

func dumpOf(t *testing.T, tr http.RoundTripper, r *http.Request) dumped {
	t.Helper()
	var d dumped
	resp, body, err := responseTo(tr, r)
	if err == nil {
		err = json.Unmarshal([]byte(body), &d)
	}
	if err != nil {
		t.Fatalf("%s: %v", describe(resp, body, err), err)
	}
	return d
}

func TestPHPResponds(t *testing.T) {
	tr := php(t, map[string]string{
		"dump.php": dump, "index.php": "<?php echo 'home';", "dir/index.php": "<?php echo 'dir';",
		"text.jpg": "<?php echo 'no';",
		"status.php": "<?php http_response_code((int)$_GET['s']); if (isset($_GET['to'])) " +
			"header('Location: ' . $_GET['to']); echo 'body';",
		"headers.php": "<?php header('X-Many: one'); header('X-Many: two', false); setcookie('a', 'b'); " +
			"header('Content-Length: 4'); echo 'body';",
		"fatal.php": "<?php nothing();",
		"exit.php":  "<?php echo 'body'; exit(7);",
		"late.php":  "<?php header('Content-Length: 4'); echo 'bodymore';",
		"short.php": "<?php header('Content-Length: 40'); echo 'body';",
		"log.php":   "<?php error_log('one'); echo 'bo'; flush(); error_log('two'); echo 'dy';",
	}, "")
	var log strings.Builder
	tr.Stderr = func(_ *http.Request, text []byte) { log.Write(text) }
	t.Run("parameters", func(t *testing.T) {
		r := newRequest(t, "POST", "http://app.example/dump.php/in/fo?q=1",
			strings.NewReader(url.Values{"a": {"b c"}}.Encode()))
		r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Cookie": {"c=1", "d=2"},
			"Proxy": {"evil"}, "X_User": {"evil"}, "X.User": {"evil"}}
		r.RemoteAddr = "192.0.2.7:1234"
		d := dumpOf(t, tr, r)
		for name, want := range map[string]string{
			"SCRIPT_FILENAME": tr.Root + "/dump.php", "SCRIPT_NAME": "/dump.php", "PATH_INFO": "/in/fo",
			"PHP_SELF":      "/dump.php/in/fo",
			"DOCUMENT_ROOT": tr.Root, "REQUEST_URI": "/dump.php/in/fo?q=1", "QUERY_STRING": "q=1",
			"REQUEST_METHOD": "POST", "CONTENT_LENGTH": "5",
			"HTTP_HOST": "app.example", "REMOTE_ADDR": "192.0.2.7", "HTTP_COOKIE": "c=1; d=2",
		} {
			testkit.Equal(t, d.Server[name], any(want), name)
		}
		for name, value := range d.Server {
			testkit.Equal(t, value == "evil", false, name, "is evil")
		}
		testkit.Equal(t, fmt.Sprint(d.Post, d.Cookie, d.Body), "map[a:b c] map[c:1 d:2]a=b+c")
	})
	t.Run("responses", func(t *testing.T) {
		for _, test := range []struct{ method, path, want string }{
			{"GET", "", `200 OK -1 "home" <nil>`},
			{"GET", "dir/", `200 OK -1 "dir" <nil>`},
			{"GET", "none.php", `404 Not Found -1 "File not found.\n" <nil>`},
			{"GET", "text.jpg", `403 Forbidden -1 "Access denied.\n" <nil>`},
			// PHP looks for it nevertheless
			{"GET", "text.jpg/x.php", `403 Forbidden -1 "Access denied.\n" <nil>`},
			{"GET", "status.php?s=201", `201 Created -1 "body" <nil>`},
			{"GET", "status.php?s=204", `204 No Content 0 "" <nil>`},
			{"GET", "status.php?s=304", `304 Not Modified 0 "" <nil>`},
			{"GET", "status.php?s=303&to=/x", `303 See Other -1 "body" <nil>`},
			{"HEAD", "", `200 OK -1 "" <nil>`},
			{"HEAD", "headers.php", `200 OK 4 "" <nil>`},
			{"GET", "headers.php", `200 OK 4 "body" <nil>`},
			{"GET", "fatal.php", `500 Internal Server Error -1 "" <nil>`},
			{"GET", "exit.php", `200 OK -1 "body" <nil>`},
			{"GET", "late.php", `200 OK 4 "body" <nil>`},
			{"GET", "short.php", `200 OK 40 "body" tare: reading the response's body from SOCKET: unexpected EOF`},
		} {
			resp, body, err := responseTo(tr, newRequest(t, test.method, address+test.path, nil))
			if resp == nil {
				t.Fatalf("%s %s: %v", test.method, test.path, err)
			}
			want := strings.Replace(test.want, "SOCKET", tr.Addr, 1)
			got := fmt.Sprintf("%s %d %q %v", resp.Status, resp.ContentLength, body, err)
			testkit.Equal(t, got, want, test.method, test.path)
			if test.path == "headers.php" && (fmt.Sprint(resp.Header["X-Many"]) != "[one two]" ||
				len(resp.Cookies()) != 1) {
				t.Errorf("%v", resp.Header)
			}
		}
	})
	t.Run("log", func(t *testing.T) {
		log.Reset()
		must(t, tr, get(t, address+"log.php"), "body")
		testkit.Contains(t, log.String(), "one")
		testkit.Contains(t, log.String(), "two")
	})
	t.Run("body of unknown length", func(t *testing.T) {
		unknown := func() *http.Request {
			return newRequest(t, "POST", address+"dump.php", io.MultiReader(strings.NewReader("body")))
		}
		streamed := dumpOf(t, tr, unknown())
		testkit.Equal(t, fmt.Sprint(streamed.Body, streamed.Server["CONTENT_LENGTH"]), "<nil>", "streamed")
		buffering := checked(t, &fcgi.Transport{Addr: tr.Addr, Root: tr.Root, BufferBody: 100})
		buffered := dumpOf(t, buffering, unknown())
		testkit.Equal(t, fmt.Sprint(buffered.Body, buffered.Server["CONTENT_LENGTH"]), "body4", "buffered")
	})
	t.Run("proxy", func(t *testing.T) {
		site := proxy(t, tr)
		r := newRequest(t, "POST", site+"/dump.php?x", io.MultiReader(strings.NewReader("body")))
		r.ContentLength = 4
		d := dumpOf(t, http.DefaultTransport, r)
		_, port, _ := strings.Cut(strings.TrimPrefix(site, "http://"), ":")
		got := fmt.Sprint(d.Body, d.Server["REMOTE_ADDR"], " ", d.Server["SERVER_ADDR"], ":", d.Server["SERVER_PORT"])
		testkit.Equal(t, got, "body127.0.0.1 127.0.0.1:"+port)
	})
}

const wsgi = `
import json, sys
from flup.server.fcgi import WSGIServer

def application(environ, start_response):
    body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
    environ['wsgi.errors'].write('a line\n')
    path = environ.get('PATH_INFO', '')
    if path == '/large':
        start_response('200 OK', [('Content-Type', 'text/plain')])
        return (b'x' * 65536 for _ in range(64))
    response = json.dumps({'Server': {k: v for k, v in environ.items() if isinstance(v, str)},
        'Body': body.decode('latin-1')}).encode()
    start_response('201 Made', [('Content-Type', 'application/json'), ('Content-Length', str(len(response))),
        ('X-Many', '1'), ('X-Many', '2')])
    return [response]

WSGIServer(application, bindAddress=sys.argv[1], debug=False).run()
`

// An application in another language, whose responses are not PHP's.
func TestFlupResponds(t *testing.T) {
	path, env := programs.Python(t, "flup==1.0.3")
	dir := t.TempDir()
	script, socket := filepath.Join(dir, "app.py"), filepath.Join(dir, "s")
	testkit.Must(t, os.WriteFile(script, []byte(wsgi), 0o644))
	programs.Start(t, "unix", socket, env, path, script, socket)
	for _, kept := range []int{0, 1} {
		tr := checked(t, &fcgi.Transport{Addr: socket, MaxIdleConnsPerHost: kept})
		var log strings.Builder
		tr.Stderr = func(_ *http.Request, text []byte) { log.Write(text) }
		for _, body := range []string{"", "body", strings.Repeat("long", 50_000)} {
			r := newRequest(t, "POST", "https://app.example/in/fo?q=1", strings.NewReader(body))
			r.Header = http.Header{"X-User": {"good"}, "X_User": {"evil"}, "Proxy": {"evil"}}
			log.Reset()
			d := dumpOf(t, tr, r)
			for name, want := range map[string]any{
				"SCRIPT_NAME": "", "PATH_INFO": "/in/fo", "SERVER_NAME": "app.example", "SERVER_PORT": "443",
				"HTTP_X_USER": "good", "HTTP_PROXY": nil, "CONTENT_LENGTH": fmt.Sprint(len(body)),
			} {
				testkit.Equal(t, d.Server[name], want, name)
			}
			testkit.Equal(t, d.Body, body)
			testkit.Equal(t, log.String(), "a line\n")
		}
		resp, body, err := responseTo(tr, newRequest(t, "HEAD", address, nil))
		if err != nil || resp.Status != "201 Made" || resp.ContentLength <= 0 || body != "" ||
			len(resp.Header["X-Many"]) != 2 {
			t.Error(describe(resp, body, err))
		}
		must(t, tr, get(t, address+"large"), strings.Repeat("x", 4<<20))
		testkit.Equal(t, tr.Idle(), kept, "connections are kept")
	}
}
