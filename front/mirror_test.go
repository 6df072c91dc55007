package front_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit"
)

// mirrored serves /, mirrored to /copy, with handlers for both.
func mirrored(t testing.TB, directives string, main, mirror http.HandlerFunc) (*testClient, *front.Handler) {
	t.Helper()
	h := confFront(t, "", directives+`
		location / { mirror /copy; proxy_set_header Host $http_host; proxy_pass http://app; }
		location /copy { internal; proxy_set_header X-Request $request_id; proxy_pass http://mirror/of$request_uri; }`,
		handlers{"app": main, "mirror": mirror})
	return serveHandler(t, h), h
}

// A mirror receives the method, the query, the fields and, unless the Config excludes it, the body.
func TestMirrorReceivesACopy(t *testing.T) {
	for sent, n := range map[string]int{"on": 1, "off": 0} {
		for _, body := range []string{"", "short", strings.Repeat("0123456789", 10_000)} {
			copies := make(chan string, 1)
			a, _ := mirrored(t, "mirror_request_body "+sent+";", func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				fmt.Fprint(w, string(b) == body, err)
				r.Header.Set("X-Field", "changed") // a handler may change its request
			}, func(_ http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				copies <- fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("X-Field"), r.Header["Content-Length"],
					r.ContentLength, " ", len(b), err)
			})
			a.do("POST", "/a?b=c", strings.NewReader(body), "X-Field", "field").is(t, 200, "true <nil>")
			want := fmt.Sprintf("POST /of/a?b=c field[] %d %[1]d <nil>", n*len(body))
			testkit.Equal(t, testkit.Receive(t, copies), want, "copy")
		}
	}
}

// The client waits neither for a mirror that hangs, nor for one that panics, and closing the
// handler ends both.
func TestMirrorDelaysNothing(t *testing.T) {
	started, ended := make(chan string, 1), make(chan string, 1)
	a, h := mirrored(t, "", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") },
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
	a, h := mirrored(t, "", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") },
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
	copies := make(chan string, 10)
	to := serve(t, func(_ http.ResponseWriter, r *http.Request) { copies <- r.URL.Path })
	theirs, ours := besideNginx(t, "", strings.ReplaceAll(`
		location / { mirror /a; mirror /b; mirror /b; proxy_pass http://UP/main; }
		location /a { internal; proxy_pass http://UP/a; } location /b { internal; proxy_pass http://UP/b; }`, "UP", to))
	for _, a := range []*testClient{theirs, ours} {
		a.get("/")
		var all []string
		for range 4 {
			all = append(all, testkit.Receive(t, copies))
		}
		slices.Sort(all)
		testkit.Equal(t, strings.Join(all, " "), "/a /b /b /main")
	}
}
