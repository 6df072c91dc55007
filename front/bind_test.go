package front_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// A bound handler receives the request that a server in its place would.
func TestBoundHandlerReceivesServersRequest(t *testing.T) {
	to := serve(t, echo)
	for name, c := range map[string]struct{ uri, directives string }{
		"plain": {}, "host": {"", "proxy_set_header Host $host;"}, "uri": {"/b/", ""}, "variables": {"/v$uri?x=$arg_x", ""},
		"fields":    {"", `proxy_set_header X-Real-IP $arg_x; proxy_set_header X-A ""; proxy_set_header X-Same same;`},
		"method":    {"", `proxy_method POST; proxy_set_body "new body";`},
		"no header": {"", "proxy_pass_request_headers off; proxy_set_header X-B c;"},
		"no body":   {"", "proxy_pass_request_body off;"},
	} {
		host := "proxy_set_header Host app; " // otherwise it is the target's name, which differs
		if name == "host" {
			host = ""
		}
		a := serveBound(t, "", c.directives+" location /r/ { "+c.directives+host+"proxy_pass http://"+to+c.uri+
			"; } location /l/ { proxy_pass http://app"+c.uri+"; }", handlers{"app": echo})
		for method, body := range map[string]string{"GET": "", "POST": "body"} {
			received := func(path string) (e echoed) {
				got := a.do(method, path+"x%2Fy?x=%20z", strings.NewReader(body), "X-A", "1", "X_A", "2",
					"X-Same", "same", "Connection", "X-Gone", "X-Gone", "1", "Te", "trailers")
				got.is(t, 200)
				testkit.Fields(t, got.header, name, "Content-Type", "text/plain; charset=utf-8")
				testkit.Must(t, json.Unmarshal([]byte(got.body), &e))
				e.URI = strings.Replace(e.URI, "/r/", "/l/", 1)
				return e
			}
			testkit.Equal(t, received("/l/"), received("/r/"), name, method)
		}
	}
}

// The fields that X-Accel-Redirect keeps precede those of the next bound handler, whose location
// does not rewrite them. Upstreams behave the same.
func TestBoundHandlerKeepsEarlierFields(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", r.URL.Path[1:]+"; Path=/")
		w.Header().Set("Cache-Control", r.URL.Path)
		if next := strings.Index(r.URL.RawQuery, ">"); next >= 0 {
			w.Header().Set("X-Accel-Redirect", r.URL.RawQuery[:next]+"?"+r.URL.RawQuery[next+1:])
		}
	}
	server := serve(t, app)
	for _, chain := range []string{"/a?/b>", "/a?/b>/a>", "/a?/plain>", "/a?/plain>/b>/b>", "/b?/text>", "/first?/b>"} {
		var headers []http.Header
		for _, to := range []string{server, "app"} {
			got := serveBound(t, "", strings.ReplaceAll(`location /a { proxy_pass TO; proxy_cookie_path / /a/; }
				location /b { proxy_pass TO; proxy_cookie_path / /b/; add_header X-To http://$proxy_host; }
				location /plain { proxy_pass TO; } location /first { proxy_pass http://`+server+`; }
				location /text { return 200; }`, "TO", "http://"+to), handlers{"app": app}).get(chain)
			if strings.HasSuffix(chain, "/b>") {
				testkit.Equal(t, got.header.Get("X-To"), "http://"+to, chain, "the last target")
			}
			got.header.Del("X-To")
			got.header.Del("Date")
			headers = append(headers, got.header)
		}
		testkit.Equal(t, headers[1], headers[0], chain)
		testkit.Equal(t, len(headers[0]["Set-Cookie"]) > 0, true, chain, "sets a cookie")
	}
}

// If nothing differs the handler receives the client's request itself. The client's header is not
// changed.
func TestUnchangedRequestIsNotCopied(t *testing.T) {
	var got *http.Request
	app := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r })
	for _, test := range []struct {
		fields           []conf.Field // besides Host
		host             conf.Text
		same, sameHeader bool
		received         string
	}{
		{nil, "$http_host", true, true, "[b]"}, {nil, "app", false, true, "[b]"},
		{[]conf.Field{{Name: "X-A", Value: "b"}}, "$http_host", true, true, "[b]"},
		{[]conf.Field{{Name: "X-A", Value: "c"}}, "$http_host", false, false, "[c]"},
		{[]conf.Field{{Name: "X-A"}}, "$http_host", false, false, "[]"},
	} {
		h := newFront(t, oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: "app",
			Header: append(test.fields, conf.Field{Name: "Host", Value: test.host})}}), front.Bind("app", app))
		r := httptest.NewRequest("GET", "/x", nil)
		r.Header.Set("X-A", "b")
		r.Header.Set("X-C", "d")
		h.ServeHTTP(httptest.NewRecorder(), r)
		if (got == r) != test.same || got.RemoteAddr != r.RemoteAddr || got.Context() != r.Context() ||
			got.URL != r.URL || fmt.Sprint(got.Header["X-A"]) != test.received || got.Header.Get("X-C") != "d" {
			t.Errorf("%v: the same %v, %v", test, got == r, got.Header)
		}
		got.Header["X-New"] = nil
		if _, ok := r.Header["X-New"]; ok != test.sameHeader || r.Header.Get("X-A") != "b" {
			t.Errorf("%v: the client's header is %v", test, r.Header)
		}
	}
}

// The handler sees the Host of the Config, and logs see the client's. A request that other handlers
// have seen is not changed.
func TestBoundHandlerSeesConfiguredHost(t *testing.T) {
	var bound, outer *http.Request
	log := filepath.Join(t.TempDir(), "log")
	h := confFront(t, `log_format hosts "$host $http_host";`, "access_log "+log+" hosts; "+passTo("app"),
		handlers{"app": func(_ http.ResponseWriter, r *http.Request) { bound = r }})
	for name, handler := range map[string]http.Handler{
		"alone": h, "around": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			outer = r
			h.ServeHTTP(w, r)
		}),
	} {
		serveHandler(t, handler).get("/", "Host", "Front.test:8080").is(t, 200)
		testkit.Equal(t, bound.Host, "app", name, "the Host of the handler's request")
	}
	testkit.Equal(t, outer.Host, "Front.test:8080", "the host of another handler's request")
	h.Close()
	testkit.Equal(t, string(testkit.Value(os.ReadFile(log))(t)), strings.Repeat("front.test Front.test:8080\n", 2))
}

// The request of a handler is not changed when another handler serves its error page.
func TestBoundHandlersRequestIsNotChangedLater(t *testing.T) {
	var first, second *http.Request
	serveBound(t, "", `location / { proxy_pass http://app; proxy_intercept_errors on; error_page 404 @other; }
		location @other { proxy_pass http://other; }`, handlers{
		"app": func(w http.ResponseWriter, r *http.Request) {
			first = r
			w.WriteHeader(http.StatusNotFound)
		},
		"other": func(_ http.ResponseWriter, r *http.Request) { second = r },
	}).get("/").is(t, 404)
	testkit.Equal(t, []string{first.Host, second.Host}, []string{"app", "other"}, "hosts")
}

func TestResponseRulesApplyToBoundHandlers(t *testing.T) {
	app := func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.URL.Query() {
			w.Header()[name] = values
		}
		switch r.URL.Path {
		case "/a/302", "/a/401", "/a/404":
			w.WriteHeader(testkit.Value(strconv.Atoi(r.URL.Path[3:]))(t))
		case "/a/flush":
			_ = http.NewResponseController(w).Flush()
		case "/a/changed":
			w.WriteHeader(http.StatusOK)
			w.Header()["X-Accel-Redirect"][0] = "/i/none"
		case "/a/copy":
			_, _ = io.Copy(w, strings.NewReader("copied"))
			return
		case "/a/silent":
			return
		}
		_, _ = io.WriteString(w, "body")
	}
	a := serveBound(t, "", `location /a/ { proxy_pass http://app; proxy_hide_header X-Secret; proxy_intercept_errors on;
			proxy_cookie_path /a/ /b/; error_page 401 404 /i/file.txt; }
		location /i/ { internal; root `+site(t, "i/file.txt")+"; }", handlers{"app": app})
	for _, test := range []struct {
		line, body, field, value string
		status                   int
	}{
		{"/a/200?X-Secret=x&X-A=y", "body", "X-Secret", "", 200}, {"/a/200?X-A=y", "body", "X-A", "y", 200},
		{"/a/200?x-secret=x", "body", "X-Secret", "", 200}, // in another spelling
		{"/a/200?x-accel-redirect=/i/file.txt", "i/file.txt", "X-Accel-Redirect", "", 200},
		{"/a/302?Location=http://app/z", "body", "Location", "http://front.test/z", 302},
		{"/a/404?X-A=y", "i/file.txt", "X-A", "", 404}, {"/a/200?Set-Cookie=a=b;+Path=/a/x", "body", "X-A", "", 200},
		{"/a/401?X-A=y", "i/file.txt", "X-A", "", 401},
		{"/a/401?Www-Authenticate=Bearer", "i/file.txt", "Www-Authenticate", "Bearer", 401},
		{"/a/404?Www-Authenticate=Bearer", "i/file.txt", "Www-Authenticate", "", 404},
		{"/a/200?X-Accel-Redirect=/i/file.txt&X-A=y&Content-Type=x/y", "i/file.txt", "Content-Type", "x/y", 200},
		{"/a/flush?X-Accel-Redirect=/i/file.txt&X-A=y", "i/file.txt", "X-A", "", 200},
		{"/a/copy?X-Accel-Redirect=/i/file.txt", "i/file.txt", "X-Accel-Redirect", "", 200},
		{"/a/changed?X-Accel-Redirect=/i/file.txt", "i/file.txt", "X-Accel-Redirect", "", 200},
		{"/a/404?X-Accel-Redirect=/i/file.txt", "i/file.txt", "X-Accel-Redirect", "", 404}, // by the error page
		{"/a/copy?X-Secret=x", "copied", "X-Secret", "", 200},
		{"/a/flush?X-Secret=x", "body", "X-Secret", "", 200}, {"/a/silent?X-Secret=x", "", "X-Secret", "", 200},
		{"/a/silent?X-Accel-Redirect=/i/file.txt", "i/file.txt", "X-Accel-Redirect", "", 200},
		{"/a/200?X-Accel-Redirect=&X-Secret=x", "i/file.txt", "X-Secret", "", 404}, // not a path
	} {
		got := a.get(test.line)
		got.is(t, test.status, test.body)
		testkit.Equal(t, got.header.Get(test.field), test.value, test.line)
	}
}

// The writer that a handler keeps does not lead to another request.
func TestKeptBoundWriterIsHarmless(t *testing.T) {
	var kept []http.ResponseWriter
	var received []*http.Request
	h := confFront(t, "", "proxy_redirect http://app/ http://$host/; "+passTo("app"), handlers{
		"app": func(w http.ResponseWriter, r *http.Request) {
			kept, received = append(kept, w), append(received, r)
			if r.URL.Path == "/first" {
				return // nothing was written: the rules have not been applied
			}
			kept[0].Header()["Location"] = []string{"http://app/x"}
			kept[0].WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte("own"))
		}})
	for i, path := range []string{"/first", "/other"} {
		get(t, h, path).is(t, 200, []string{"", "own"}[i])
	}
	if len(received) != 2 || received[0].URL.Path != "/first" || received[1].URL.Path != "/other" ||
		kept[0] == kept[1] {
		t.Errorf("received %v", received)
	}
}

// A body that was received for an upstream is available to the handler that responds instead.
func TestBoundHandlerGetsBufferedBody(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) })
	a := serveBound(t, "", "location / { proxy_pass http://"+to+`; proxy_intercept_errors on; error_page 502 = @app; }
		location @app { proxy_pass http://app; }`, handlers{"app": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.Method, r.ContentLength)
		_, _ = io.Copy(w, r.Body)
	}})
	for _, n := range []int{1, 100_000} {
		body := strings.Repeat("x", n)
		// one without a length
		for _, from := range []io.Reader{strings.NewReader(body), io.MultiReader(strings.NewReader(body))} {
			a.do("POST", "/x", from).is(t, 200, fmt.Sprint("POST ", n, "\n", body))
		}
	}
}

// A bound handler gives the same responses with a cache as when a server calls it.
func TestCachedBoundHandlerRespondsAsDirectOne(t *testing.T) {
	all := map[string]http.HandlerFunc{
		"/nothing": func(http.ResponseWriter, *http.Request) {},
		"/short":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>short") },
		"/long": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 10_000 {
				fmt.Fprintln(w, "line", i)
			}
		},
		"/declared": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"], w.Header()["Content-Type"] = []string{"2"}, []string{"x/y"}
			fmt.Fprint(w, "hi")
		},
		"/none":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"/missing": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"/part": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "x.txt", time.Unix(1e9, 0), strings.NewReader("0123456789"))
		},
		"/body": func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			fmt.Fprint(w, r.Header["Content-Length"], r.ContentLength, string(b), err)
		},
	}
	mux := http.NewServeMux()
	for path, f := range all {
		mux.HandleFunc(path, f)
	}
	a := serveCached(t, "proxy_cache_valid 1h; "+passTo("app"), handlers{"app": mux.ServeHTTP})
	direct := serveHandler(t, mux)
	states := map[string]int{}
	for path := range all {
		for _, method := range []string{"GET", "GET", "HEAD", "POST"} {
			send := func(of *testClient) response {
				switch {
				case method == "POST":
					return of.do(method, path, strings.NewReader("sent"))
				case path == "/part":
					return of.do(method, path, nil, "Range", "bytes=2-4")
				}
				return of.do(method, path, nil)
			}
			got, want := send(a), send(direct)
			states[got.header.Get("X-Cache")]++
			got.is(t, want.status, want.body)
			for _, name := range []string{"Content-Type", "Content-Range", "Content-Length"} {
				isStored := name == "Content-Length" && want.header[name] == nil // its length is known
				if got.header.Get(name) != want.header.Get(name) && !isStored {
					t.Errorf("%s %s: %s %q, want %q", method, path, name, got.header[name], want.header[name])
				}
			}
		}
	}
	n := len(all)
	if states["MISS"] < n || states["HIT"] < n || states[""] != n {
		t.Errorf("states %v", states)
	}
}

// The trailer section of a response that is not stored arrives, and pieces arrive as they are
// flushed, also if they are stored.
func TestCachedBoundHandlerStreams(t *testing.T) {
	for path, trailer := range map[string][]string{"/": {"X-Sum", "1", "X-Late", "2"}, "/stored": nil} {
		next := make(chan bool)
		a := serveBound(t, "proxy_cache_path DIR/cache keys_zone=z:1m;",
			`proxy_cache z; location / { proxy_pass http://app; }
			location /stored { proxy_cache_valid 1h; proxy_pass http://app; }`, handlers{
				"app": func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Trailer"] = []string{"X-Sum"}
					fmt.Fprint(w, "one")
					_ = http.NewResponseController(w).Flush()
					<-next
					fmt.Fprint(w, "two")
					w.Header()["X-Sum"], w.Header()["Trailer:X-Late"] = []string{"1"}, []string{"2"}
				}})
		resp := testkit.Value(a.client.Get("http://front.test" + path))(t)
		testkit.Receives(t, resp.Body, "one", path)
		close(next)
		testkit.Reads(t, resp.Body, "two", path)
		resp.Body.Close()
		testkit.Fields(t, resp.Trailer, "trailer", trailer...)
	}
}

// A panic of a cached handler is an error of the upstream, or ends the connection of a response
// that has begun. It is logged, and the response is not stored. The same holds for a response
// shorter than it declares.
func TestIncompleteResponsesOfBoundHandlersAreNotStored(t *testing.T) {
	var logged bytes.Buffer
	var fails atomic.Bool
	a := serveCached(t, passTo("app"), handlers{
		"app": func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Cache-Control"] = []string{"max-age=600"}
			switch {
			case !fails.Load():
			case r.URL.Path == "/short":
				w.Header()["Content-Length"] = []string{"3"}
			case r.URL.Path == "/late", r.URL.Path == "/open":
				if r.URL.Path == "/open" { // only the end of the connection ends the body
					w.Header()["Transfer-Encoding"] = []string{"identity"}
				}
				fmt.Fprint(w, strings.Repeat("x", 1<<20))
				panic("late")
			case r.URL.Path == "/early":
				panic("early")
			case r.URL.Path == "/exit":
				w.Header()["Transfer-Encoding"] = []string{"identity"}
				fmt.Fprint(w, strings.Repeat("x", 1<<20))
				runtime.Goexit()
			}
			fmt.Fprint(w, "ok")
		}}, front.LogErrors(log.New(&logged, "", 0)))
	for _, path := range []string{"/early", "/late", "/open", "/exit", "/short"} {
		fails.Store(true)
		got, err := a.attempt("GET", path, nil)
		if path == "/early" && (err != nil || got.status != http.StatusBadGateway) || path != "/early" && err == nil {
			t.Errorf("%s: %v, error %v", path, got, err)
		}
		fails.Store(false)
		a.get(path).want(t, "MISS", 200, "ok")
	}
	for _, want := range []string{"panic in a bound handler: early", "panic in a bound handler: late"} {
		testkit.Contains(t, logged.String(), want, "the log")
	}
}

// The cache judges the fields of a bound handler as a client would receive them: no client gets
// what was another's, however the handler spells them.
func TestPrivateResponsesOfBoundHandlersAreNotShared(t *testing.T) {
	fields := map[string]http.Header{
		"/lower":   {"cache-control": {"private, no-store"}},
		"/newline": {"Cache-Control": {"private\n"}},
		"/vary":    {"vary": {"X-User"}},
		"/cookie":  {"set-cookie": {"sid=3"}},
	}
	a := serveCached(t, "proxy_cache_valid 1h; "+passTo("app"), handlers{
		"app": func(w http.ResponseWriter, r *http.Request) {
			maps.Copy(w.Header(), fields[r.URL.Path])
			fmt.Fprint(w, r.Header["X-User"])
		}})
	for path := range fields {
		for _, user := range []string{"alice", "bob"} {
			a.get(path, "X-User", user).is(t, 200, "["+user+"]")
		}
	}
}

// As with net/http a response without a body ends with its head, and with a cache any other one once
// its length has been written, while the bound handler goes on. Its context does not end with the
// response, and the Handler does not end before it.
func TestBoundHandlerGoesOnAfterItsResponse(t *testing.T) {
	goesOn, alive := make(chan bool), atomic.Int64{}
	h := confFront(t, "proxy_cache_path DIR/cache keys_zone=z:1m; map $uri $passes { ~passed 1; }",
		`location / { proxy_pass http://app; proxy_cache z; proxy_cache_valid any 1h; proxy_no_cache $passes;
		proxy_cache_convert_head off; proxy_cache_key $request_method$uri; }`, handlers{
			"app": func(w http.ResponseWriter, r *http.Request) {
				status := testkit.Value(strconv.Atoi(r.URL.Path[len(r.URL.Path)-3:]))(t)
				if status == 200 {
					w.Header().Set("Content-Length", "4")
				}
				if w.WriteHeader(status); status == 200 && r.Method == "GET" {
					fmt.Fprint(w, "abcd")
				}
				testkit.Check(t, http.NewResponseController(w).Flush())
				if <-goesOn; r.Context().Err() == nil {
					alive.Add(1)
				}
			}})
	a := serveHandler(t, h)
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{{"GET", "/200", 200, "abcd"}, {"GET", "/200", 200, "abcd"}, {"GET", "/passed/200", 200, "abcd"},
		{"HEAD", "/200", 200, ""}, {"GET", "/204", 204, ""}, {"GET", "/304", 304, ""}} {
		a.do(c.method, c.path, nil).is(t, c.status, c.body)
	}
	go close(goesOn)
	testkit.Check(t, h.Close())
	testkit.Equal(t, alive.Load(), 5, "handlers that have ended with a live context; one response was stored")
}

// Abort ends the context of a bound handler that goes on after its response, which Close waits for.
func TestAbortEndsBoundHandlerAfterItsResponse(t *testing.T) {
	for _, body := range []string{"", "ok"} {
		h := confFront(t, "proxy_cache_path DIR/cache keys_zone=z:1m;",
			"location / { proxy_pass http://app; proxy_cache z; }",
			handlers{"app": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				fmt.Fprint(w, body)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}})
		testkit.Equal(t, serveHandler(t, h).get("/").body, body)
		h.Abort()
		closed := make(chan error, 1)
		go func() { closed <- h.Close() }()
		testkit.Check(t, testkit.Receive(t, closed, body, "Close, which waits for the handler"))
	}
}

// A stale response replaces the error of a bound handler that panics.
func TestStaleResponseReplacesPanic(t *testing.T) {
	var calls atomic.Int64
	a := serveCached(t, "proxy_cache_use_stale error; "+passTo("app"),
		handlers{"app": func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) > 1 {
				panic("broken")
			}
			w.Header().Set("X-Accel-Expires", "@1")
			fmt.Fprint(w, "first")
		}})
	a.get("/").want(t, "MISS", 200, "first")
	a.get("/").want(t, "STALE", 200, "first")
}
