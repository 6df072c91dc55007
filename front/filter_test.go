package front_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// Added header fields disable neither sendfile nor the other methods of the server's writer.
func TestWriterKeepsServersMethods(t *testing.T) {
	name, content := filepath.Join(t.TempDir(), "file"), strings.Repeat("0123456789abcdef", 50_000)
	testkit.WriteFile(t, name, content)
	h := confFront(t, "", "send_timeout 1m; add_header X-A b; "+passTo("app"), handlers{
		"app": func(w http.ResponseWriter, _ *http.Request) {
			testkit.Check(t, http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute)))
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for _, most := range []int64{int64(len(content) - 7), 7} { // it continues where it stopped
				if n, err := io.Copy(w, io.LimitReader(f, most)); err != nil || n != most {
					t.Error(n, err)
				}
			}
		}})
	direct := make(chan bool, 100)
	got := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&copier{w, direct}, r)
	})).get("/")
	got.is(t, 200, content)
	testkit.Fields(t, got.header, "", "X-A", "b")
	for len(direct) > 0 {
		testkit.Equal(t, <-direct, true, "the server received a file")
	}
}

// copier records whether it received a file, as sendfile requires.
type copier struct {
	http.ResponseWriter
	direct chan bool
}

func (c *copier) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if ok {
		_, ok = limited.R.(syscall.Conn)
	}
	c.direct <- ok
	return c.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

func (c *copier) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func TestFiltersDoNotChangeResponses(t *testing.T) {
	bare := frontOf(t, conf.Settings{}, unsized)
	ours := serveBound(t, "", "access_log DIR/log; send_timeout 1m; gzip on; gzip_min_length 1000; limit_rate 100m; "+
		"proxy_set_header Host $http_host; "+passTo("app"), handlers{"app": unsized})
	const paths = "/long /typed /flushed /coded /trailer /short /length /none /hints /late /copied /untyped /"
	for path := range strings.FieldsSeq(paths) {
		for _, method := range []string{"GET", "HEAD"} {
			want, got := bare.do(method, path, nil), ours.do(method, path, nil)
			want.header.Del("Date")
			got.header.Del("Date")
			testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(want), method, path)
		}
	}
}

// waysToWrite are functions that write a text in different ways.
func waysToWrite(text string) map[string]func(w http.ResponseWriter) {
	inPieces := func(w http.ResponseWriter, n int, then func()) {
		for rest := text; rest != ""; then() {
			n = min(n, len(rest))
			_, _ = io.WriteString(w, rest[:n])
			rest = rest[n:]
		}
	}
	return map[string]func(w http.ResponseWriter){
		"Write":       func(w http.ResponseWriter) { _, _ = w.Write([]byte(text)) },
		"WriteString": func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) },
		"ReadFrom":    func(w http.ResponseWriter) { _, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader(text)}) },
		"in pieces":   func(w http.ResponseWriter) { inPieces(w, 1009, func() {}) },
		"flushed":     func(w http.ResponseWriter) { inPieces(w, 30_011, w.(http.Flusher).Flush) },
		"with a length": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = io.WriteString(w, text)
		},
	}
}

// The result of replacing, adding and compressing is the same however a handler writes.
func TestFiltersDoNotDependOnWrites(t *testing.T) {
	text := strings.Repeat("<p>0123 Needle 4567</p>\n", 10_000)
	added := func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.ContentLength != 0 || r.Header["Accept-Encoding"] != nil {
			t.Errorf("%s with %q", r.Method, r.Header)
		}
		fmt.Fprintf(w, "Needle of %s", r.URL.Path)
	}
	for name, write := range waysToWrite(text) {
		main := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			write(w)
		}
		us := addedTo(t, "sub_filter needle $uri; sub_filter_once off; gzip on;", main, added)
		want := "Needle of /before" + strings.ReplaceAll(text, "Needle", "/page") + "Needle of /after"
		for _, coding := range []string{"", "gzip"} {
			got := us.do("POST", "/page", strings.NewReader("body"), "Accept-Encoding", coding)
			testkit.Fields(t, got.header, name, "Content-Encoding", coding)
			testkit.Reads(t, decoded(t, coding, strings.NewReader(got.body)), want, name, coding)
		}
	}
}

// addedTo serves a handler at /, with the bodies of two others before and after its responses.
func addedTo(t *testing.T, directives string, main, added http.HandlerFunc) *testClient {
	t.Helper()
	return serveBound(t, "", directives+` add_before_body /before; add_after_body /after;
		location /before { internal; proxy_pass http://added; } location /after { internal; proxy_pass http://added; }`+
		passTo("app"), handlers{"app": main, "added": added})
}

// If a handler of an added body panics, the client can tell that the response is incomplete.
func TestFailedAdditionEndsTheResponse(t *testing.T) {
	for _, fails := range []string{"/before", "/after"} {
		us := addedTo(t, "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "text")
			w.(http.Flusher).Flush()
		}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == fails {
				panic(http.ErrAbortHandler)
			}
		})
		testkit.Fails(us.attempt("GET", "/", nil))(t, "", fails)
	}
}

// A response that is still being stored may be added to itself.
func TestAdditionOfTheSameCachedResponse(t *testing.T) {
	to, _ := numbered(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") })
	us := serveCached(t, "location / { proxy_pass http://"+to+`; proxy_cache_lock on; proxy_cache_key one;
		add_before_body /x; add_after_body /x; }`, nil)
	for range 2 {
		testkit.Equal(t, strings.Count(us.get("/x").body, to), 3)
	}
}

// longer is more than a server holds back to find the length.
var longer = strings.Repeat("<p>what has no length</p>\n", 200)

// unsized responds as the path describes.
func unsized(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	switch r.URL.Path {
	case "/long":
		_, _ = io.WriteString(w, longer)
	case "/typed":
		header.Set("Content-Type", "a/b")
		_, _ = io.WriteString(w, longer)
	case "/flushed":
		_, _ = io.WriteString(w, "<p>short</p>")
		w.(http.Flusher).Flush()
	case "/coded":
		header.Set("Transfer-Encoding", "chunked")
		_, _ = io.WriteString(w, longer)
	case "/trailer":
		header.Set("Trailer", "X-Behind")
		_, _ = io.WriteString(w, longer)
		header.Set("X-Behind", "x")
	case "/short":
		_, _ = io.WriteString(w, "<p>short</p>")
	case "/length":
		header.Set("Content-Length", "4")
		_, _ = io.WriteString(w, "long")
	case "/none":
		w.WriteHeader(http.StatusNoContent)
	case "/unmodified":
		w.WriteHeader(http.StatusNotModified)
	case "/hints":
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "<p>short</p>")
	case "/late":
		w.WriteHeader(http.StatusOK)
		header.Set("X-Late", "1")
		_, _ = io.WriteString(w, "late field")
	case "/copied":
		_, _ = io.Copy(w, strings.NewReader("copied"))
	case "/untyped":
		header["Content-Type"] = nil
		_, _ = io.WriteString(w, "untyped")
	}
}

// With NoChunks a response of unknown length ends with its connection, and no other does, on
// net/http and on tare. HTTP/2 and FastCGI have no chunks, and responses do not end their connections.
func TestNoChunksEndsWithConnection(t *testing.T) {
	h := newFront(t, oneHost(app(conf.Settings{NoChunks: true})), front.Bind("app", http.HandlerFunc(unsized)))
	l := testkit.Value(net.Listen("unix", filepath.Join(testkit.ShortDir(t), "s")))(t)
	cgi := &fcgi.Server{Handler: h}
	go func() { _ = cgi.Serve(l) }()
	defer cgi.Close()
	overCGI := &fcgi.Transport{Network: "unix", Addr: l.Addr().String()}
	defer overCGI.CloseIdleConnections()
	two := serveHTTP2(t, h)
	const html = "text/html; charset=utf-8"
	for name, client := range map[string]*http.Client{"net/http": serveHandler(t, h).client,
		"tare": serveByTare(t, h).client, "HTTP/2": two.Client(), "FastCGI": {Transport: overCGI}} {
		for _, c := range []struct {
			line, contentType string
			closes            bool
		}{
			{"GET /long", html, true}, {"GET /typed", "a/b", true}, {"GET /flushed", html, true},
			{"GET /coded", html, true}, {"GET /trailer", html, true}, {"GET /short", html, false},
			{"GET /length", "text/plain; charset=utf-8", false}, {"GET /none", "", false},
			{"GET /unmodified", "", false}, {"GET /hints", html, false}, {"HEAD /typed", "a/b", false},
		} {
			method, path, _ := strings.Cut(c.line, " ")
			url := "http://front.test" + path
			if name == "HTTP/2" {
				url = two.URL + path
			}
			c.closes = c.closes && name != "HTTP/2" && name != "FastCGI"
			resp := testkit.Value(client.Do(testkit.Value(http.NewRequest(method, url, nil))(t)))(t)
			body := testkit.Value(io.ReadAll(resp.Body))(t)
			resp.Body.Close()
			if resp.Close != c.closes || len(resp.TransferEncoding) > 0 || resp.Header["Transfer-Encoding"] != nil ||
				c.closes && resp.ContentLength >= 0 || path == "/long" && string(body) != longer {
				t.Errorf("%s: %s: closes %v, %q, length %d", name, c.line, resp.Close, resp.TransferEncoding,
					resp.ContentLength)
			}
			testkit.Fields(t, resp.Header, name+": "+c.line, "Content-Type", c.contentType)
		}
	}
}

// A client's data cannot end a field.
func TestAddHeaderCannotInject(t *testing.T) {
	us := serveConf(t, "", "add_header X-Uri $uri; add_header Content-Type text/x; location / { return 200 x; }")
	for path, want := range map[string]string{
		"/fine": "/fine", "/a%0d%0aX-Evil:%201": "/a X-Evil: 1", "/%0d%0aX-Evil:%201": "/ X-Evil: 1",
		"/a%0aX-Evil:1": "/a X-Evil:1", "/a%0d%0a": "/a", "/a%0d%0a%20b%0a%09c": "/a b\tc", "/a%01b%7f%0bc": "/a b  c",
	} {
		got := us.get(path)
		got.is(t, 200)
		testkit.Equal(t, fmt.Sprint(got.header["X-Uri"], got.header["X-Evil"], got.header["Content-Type"]),
			"["+want+"] [] [text/x]", path)
	}
}

// Each new client has an ID of its own, which is found in its next request.
func TestEachClientHasAnID(t *testing.T) {
	for _, mode := range []string{"on", "v1"} {
		us := serveConf(t, "", "add_header X-Got $uid_got; add_header X-Set $uid_set; userid "+mode+"; location / { empty_gif; }")
		seen := make(map[string]bool)
		for range 300 {
			got := us.get("/")
			cookie, attributes, _ := strings.Cut(got.header.Get("Set-Cookie"), "; ")
			id, set := strings.TrimPrefix(cookie, "uid="), got.header.Get("X-Set")
			if b, err := base64.StdEncoding.DecodeString(id); err != nil || len(b) != 16 || attributes != "path=/" ||
				seen[id] || seen[set] || got.header.Get("X-Got") != "" {
				t.Fatalf("%s: %q", mode, got.header)
			}
			seen[id], seen[set] = true, true
			again := us.get("/", "Cookie", "a=b; "+cookie)
			testkit.Fields(t, again.header, "the next request", "Set-Cookie", "", "X-Got", set)
		}
	}
}
