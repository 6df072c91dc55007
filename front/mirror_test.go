package front_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// mirrored serves /, mirrored to /copy, with handlers for both.
func mirrored(t testing.TB, m conf.Mirror, main, mirror http.HandlerFunc) (*testClient, *front.Handler) {
	t.Helper()
	m.URIs = []string{"/copy"}
	h := newFront(t, oneHost(
		conf.Location{Path: "/", Proxy: &conf.Proxy{To: "app"}, Settings: &conf.Settings{Mirror: &m}},
		conf.Location{Path: "/copy", Internal: true, Proxy: &conf.Proxy{To: "mirror",
			URI: text("/of$request_uri"), Header: []conf.Field{{Name: "X-Request", Value: "$request_id"}}}},
	), front.Bind("app", main), front.Bind("mirror", mirror))
	return serveHandler(t, h), h
}

func text(s conf.Text) *conf.Text { return &s }

// A mirror receives the method, the query, the fields and, unless the Config excludes it, the body.
func TestMirrorReceivesACopy(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	for _, noBody := range []bool{false, true} {
		for _, body := range []string{"", "short", long} {
			copies := make(chan string, 1)
			a, _ := mirrored(t, conf.Mirror{NoBody: noBody}, func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				fmt.Fprint(w, string(b) == body, err)
				r.Header.Set("X-Field", "changed") // a handler may change its request
			}, func(_ http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				copies <- fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("X-Field"), r.Header["Content-Length"],
					r.ContentLength, " ", len(b), err)
			})
			a.do("POST", "/a?b=c", strings.NewReader(body), "X-Field", "field").is(t, 200, "true <nil>")
			n := len(body)
			if noBody {
				n = 0
			}
			testkit.Equal(t, testkit.Receive(t, copies), fmt.Sprintf("POST /of/a?b=c field[] %d %d <nil>", n, n), "copy")
		}
	}
}

// The client waits neither for a mirror that hangs, nor for one that panics, and closing the
// handler ends both.
func TestMirrorDelaysNothing(t *testing.T) {
	started, ended := make(chan string, 1), make(chan string, 1)
	a, h := mirrored(t, conf.Mirror{}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") },
		func(_ http.ResponseWriter, r *http.Request) {
			started <- r.RequestURI
			if r.RequestURI == "/of/panic" {
				panic("mirror")
			}
			<-r.Context().Done()
			ended <- "ended"
		})
	for _, path := range []string{"/panic", "/hang"} {
		a.get(path).is(t, 200, "ok")
		testkit.Equal(t, testkit.Receive(t, started), "/of"+path)
	}
	testkit.Must(t, h.Close())
	testkit.Receive(t, ended)
}

// Copies beyond the limit are lost, and the requests are not.
func TestMirrorsAreBounded(t *testing.T) {
	const most = 512
	started, release := make(chan string, most+1), make(chan struct{})
	a, h := mirrored(t, conf.Mirror{}, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") },
		func(http.ResponseWriter, *http.Request) {
			started <- "started"
			<-release
		})
	for range most + 5 {
		a.get("/").is(t, 200, "ok")
	}
	for range most {
		testkit.Receive(t, started)
	}
	close(release)
	testkit.Must(t, h.Close())
	testkit.Equal(t, len(started), 0, "copies beyond the limit")
}

// Each mirror receives a copy, and two of the same path receive two, as from nginx.
func TestSeveralMirrors(t *testing.T) {
	testkit.Long(t, "it compares with nginx")
	const block = `location / { mirror /a; mirror /b; mirror /b; proxy_pass http://%[1]s/main; }
		location /a { internal; proxy_pass http://%[1]s/a; } location /b { internal; proxy_pass http://%[1]s/b; }`
	for name, start := range map[string]func(server string) *testClient{
		"tare":  func(server string) *testClient { return serveConf(t, "", server) },
		"nginx": func(server string) *testClient { a, _ := serveNginx(t, "", server); return a },
	} {
		t.Run(name, func(t *testing.T) {
			copies := make(chan string, 10)
			to := serve(t, func(_ http.ResponseWriter, r *http.Request) { copies <- r.URL.Path })
			start(fmt.Sprintf(block, to)).get("/")
			var all []string
			for range 4 {
				all = append(all, testkit.Receive(t, copies))
			}
			slices.Sort(all)
			testkit.Equal(t, strings.Join(all, " "), "/a /b /b /main")
		})
	}
}
