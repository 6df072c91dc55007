package fcgi_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// nginxConf configures nginx in front of an application. Its locations keep connections or not, and
// buffer request bodies or not.
const nginxConf = `daemon off;
master_process off;
pid DIR/pid;
error_log DIR/error.log info;
events { worker_connections 256; }
http {
	access_log off;
	client_body_temp_path DIR/a; fastcgi_temp_path DIR/b; proxy_temp_path DIR/c;
	uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;
	client_max_body_size 64m;
	upstream kept { server unix:DIR/app; keepalive 16; keepalive_requests 1000000; }
	server {
		listen unix:DIR/front;
		include ETC/fastcgi_params;
		location /kept/ { fastcgi_pass kept; fastcgi_keep_conn on; }
		location /once/ { fastcgi_pass unix:DIR/app; }
		location /passed/ {
			fastcgi_pass kept; fastcgi_keep_conn on; fastcgi_request_buffering off; fastcgi_buffering off;
		}
	}
}
`

// front is nginx, with a client.
type front struct {
	dir    string
	client *http.Client
}

// get requests a path.
func (f *front) get(t testing.TB, path string) (*http.Response, string) {
	t.Helper()
	return f.send(t, get(t, "http://example.org"+path))
}

// post sends a body.
func (f *front) post(t testing.TB, path string, body io.Reader) string {
	t.Helper()
	_, got := f.send(t, newRequest(t, http.MethodPost, "http://example.org"+path, body))
	return got
}

func (f *front) send(t testing.TB, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp := testkit.Value(f.client.Do(r))(t)
	defer resp.Body.Close()
	return resp, string(testkit.Value(io.ReadAll(resp.Body))(t))
}

// log returns what nginx has logged so far.
func (f *front) log(t testing.TB) string {
	t.Helper()
	return string(testkit.Value(os.ReadFile(filepath.Join(f.dir, "error.log")))(t))
}

// behindNginx runs a test with an application behind nginx, on shards and on the goroutine path. It
// fails if nginx's log has errors other than expected ones.
func behindNginx(t *testing.T, app http.HandlerFunc, expected []string,
	test func(t *testing.T, f *front, accepted *atomic.Int32)) {
	t.Helper()
	tool := programs.Nginx(t)
	for _, path := range []string{"shards", "goroutine"} {
		t.Run(path, func(t *testing.T) {
			f := &front{dir: testkit.ShortDir(t)}
			conf := strings.NewReplacer("DIR", f.dir, "ETC", programs.NginxEtc(tool)).Replace(nginxConf)
			testkit.Must(t, os.WriteFile(filepath.Join(f.dir, "conf"), []byte(conf), 0o600))
			l := testkit.Value(net.Listen("unix", filepath.Join(f.dir, "app")))(t)
			accepted := new(atomic.Int32)
			if path == "goroutine" {
				l = countedListener{l, accepted}
			}
			serve(t, &fcgi.Server{Handler: app}, l)
			f.start(t, tool)
			test(t, f, accepted)
			for line := range strings.Lines(f.log(t)) {
				if faulty(line) && !slices.ContainsFunc(expected,
					func(e string) bool { return strings.Contains(line, e) }) {
					t.Errorf("nginx logs %s", line)
				}
			}
		})
	}
}

// faulty reports whether a line of nginx's log may be an error about an application.
func faulty(line string) bool {
	return !strings.Contains(line, "buffered to a temporary file") && strings.Contains(line, "upstream") ||
		strings.Contains(line, "[error]") || strings.Contains(line, "[crit]") || strings.Contains(line, "[alert]")
}

// start starts nginx until the end of the test.
func (f *front) start(t *testing.T, tool *contender.Program) {
	socket := filepath.Join(f.dir, "front")
	programs.Start(t, "unix", socket, tool.Env, tool.Bin, "-p", f.dir, "-c", filepath.Join(f.dir, "conf"),
		"-e", filepath.Join(f.dir, "error.log"))
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
	f.client = &http.Client{Transport: transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(transport.CloseIdleConnections)
}

// countedListener counts accepted connections, which use the goroutine path.
type countedListener struct {
	net.Listener
	n *atomic.Int32
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.n.Add(1)
	}
	return c, err
}

// ways are the locations of nginxConf.
var ways = []string{"/kept/", "/once/", "/passed/"}

// A client of nginx receives an application's responses.
func TestNginxPassesResponsesOn(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<17)
	app := func(w http.ResponseWriter, r *http.Request) {
		switch filepath.Base(r.URL.Path) {
		case "204":
			w.WriteHeader(http.StatusNoContent)
		case "304":
			w.Header().Set("Etag", `"e"`)
			w.WriteHeader(http.StatusNotModified)
		case "302":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "404":
			http.NotFound(w, r)
		case "big":
			io.WriteString(w, big)
		case "sized":
			w.Header().Set("Content-Length", fmt.Sprint(len(big)))
			io.WriteString(w, big)
		case "sum":
			sum := sha256.New()
			n, err := io.Copy(sum, r.Body)
			fmt.Fprintf(w, "%d %x %v", n, sum.Sum(nil), err)
		default:
			fmt.Fprintf(w, "%s %s %s %s %v %s %s", r.Method, r.RequestURI, r.URL.Path, r.Host, r.ContentLength,
				r.Header.Get("X-Own-Field"), fcgi.ProcessEnv(r)["GATEWAY_INTERFACE"])
		}
	}
	behindNginx(t, app, nil, func(t *testing.T, f *front, _ *atomic.Int32) {
		for _, way := range ways {
			for range 3 {
				for path, want := range map[string]string{"204": "", "304": "",
					"302": "<a href=\"/elsewhere\">Found</a>.\n\n", "404": "404 page not found\n"} {
					resp, body := f.get(t, way+path)
					testkit.Equal(t, fmt.Sprint(resp.StatusCode), path, way)
					testkit.Equal(t, body, want, way, path)
				}
				for path, length := range map[string]int64{"big": -1, "sized": int64(len(big))} {
					resp, body := f.get(t, way+path)
					testkit.Equal(t, body == big, true, way, path, "the body arrives")
					testkit.Equal(t, resp.ContentLength, length, way, path)
					resp = testkit.Value(f.client.Head("http://example.org" + way + path))(t)
					resp.Body.Close()
					testkit.Equal(t, resp.StatusCode, 200, "HEAD", way, path)
					testkit.Equal(t, resp.ContentLength, length, "HEAD", way, path)
				}
			}
			req := newRequest(t, "PUT", "http://example.org"+way+"a%20b?c=d%20e", strings.NewReader("body"))
			req.Header.Set("X-Own-Field", "own")
			_, got := f.send(t, req)
			testkit.Equal(t, got, fmt.Sprintf("PUT %sa%%20b?c=d%%20e %sa b example.org 4 own CGI/1.1", way, way))
			sum := fmt.Sprintf("%d %x <nil>", len(big), sha256.Sum256([]byte(big)))
			testkit.Equal(t, f.post(t, way+"sum", strings.NewReader(big)), sum, way, "by length")
			testkit.Equal(t, f.post(t, way+"sum", io.MultiReader(strings.NewReader(big))), sum, way, "by chunks")
		}
	})
}

// nginx reuses a kept connection, so the server's response ends where nginx expects that.
func TestNginxKeepsConnections(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s", b)
	}
	behindNginx(t, app, nil, func(t *testing.T, f *front, accepted *atomic.Int32) {
		const n = 50
		for _, way := range ways {
			before := accepted.Load()
			for i := range n {
				want := strings.Repeat("x", i*i*i)
				got := f.post(t, way, strings.NewReader(want))
				testkit.Equal(t, got == want, true, len(got), "bytes of", len(want))
			}
			made := accepted.Load() - before
			// Where nginx streams bodies, it receives the response before it knows that it has sent
			// all.
			// the first and the last request share a connection
			expect := map[string]int32{"/kept/": 1, "/once/": n, "/passed/": 0}[way]
			if accepted.Load() > 0 && made != expect {
				t.Errorf("%s: %d connections for %d requests", way, made, n)
			}
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 30 {
					want := fmt.Sprintf("%d-%d", i, j)
					r := newRequest(t, http.MethodPost, "http://example.org"+ways[j%3], strings.NewReader(want))
					_, got, err := responseTo(f.client.Transport, r)
					testkit.Check(t, err)
					testkit.Equal(t, got, want)
				}
			})
		}
		wg.Wait()
	})
}

// If a client disconnects, nginx closes its connection to the server. Then the request's context is
// canceled, whatever the handler does afterwards.
func TestContextIsCanceledWhenNginxClientDisconnects(t *testing.T) {
	begun, ended := make(chan bool), make(chan error)
	app := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			io.ReadFull(r.Body, make([]byte, r.ContentLength)) // not up to io.EOF
		} else {
			io.Copy(io.Discard, r.Body)
		}
		begun <- true
		<-r.Context().Done()
		ended <- r.Context().Err()
	}
	behindNginx(t, app, []string{"client closed connection", "client prematurely closed",
		"closed keepalive connection"}, func(t *testing.T, f *front, _ *atomic.Int32) {
		for _, way := range ways {
			for method, size := range map[string]int{"GET": 0, "POST": 40_000, "PUT": 100} {
				ctx, leave := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, method, "http://example.org"+way,
					strings.NewReader(strings.Repeat("x", size)))
				testkit.Must(t, err)
				failed := make(chan error, 1)
				go func() {
					resp, err := f.client.Do(req)
					if err == nil {
						resp.Body.Close()
					}
					failed <- err
				}()
				<-begun
				leave()
				testkit.Is(t, <-ended, context.Canceled, method, way)
				testkit.Error(t, <-failed, "canceled", method, way)
			}
		}
	})
}

// nginx logs what a handler writes to Stderr, and that a handler has failed.
func TestNginxLogsStderrAndFailures(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "panic") {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(fcgi.Stderr(w), "note about %s, before", r.URL.Path)
		io.WriteString(w, "body")
		fmt.Fprintf(fcgi.Stderr(w), "note about %s, then", r.URL.Path)
	}
	expected := []string{"FastCGI sent in stderr", "upstream prematurely closed", "while reading response header",
		"Connection reset by peer"}
	behindNginx(t, app, expected, func(t *testing.T, f *front, _ *atomic.Int32) {
		for _, way := range ways {
			_, body := f.get(t, way+"x")
			testkit.Equal(t, body, "body", way)
			for _, when := range []string{"before", "then"} {
				want := fmt.Sprintf("note about %sx, %s", way, when)
				testkit.WaitFor(t, want+" is logged", func() bool { return strings.Contains(f.log(t), want) })
			}
			resp, _ := f.get(t, way+"panic")
			testkit.Equal(t, resp.StatusCode, http.StatusBadGateway, way, "panic")
		}
	})
}
