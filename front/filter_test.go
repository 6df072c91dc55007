package front_test

import (
	"bytes"
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
	name := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	testkit.Must(t, os.WriteFile(name, content, 0o600))
	h := newFront(t, oneHost(app(conf.Settings{SendTimeout: time.Minute,
		Header: []conf.AddHeader{{Name: "X-A", Value: "b"}}})),
		front.Bind("app", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			testkit.Check(t, http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute)))
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if n, err := io.Copy(w, io.LimitReader(f, int64(len(content)-7))); err != nil ||
				n != int64(len(content)-7) {
				t.Error(n, err)
			}
			if n, err := io.Copy(w, f); err != nil || n != 7 { // and it continues where it stopped
				t.Error(n, err)
			}
		})))
	direct := make(chan bool, 100)
	got := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&copier{w, direct}, r)
	})).get("/")
	got.is(t, 200, string(content))
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
	handlers := map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"string": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>"+strings.Repeat("x", 5000))
		},
		"status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			_, _ = w.Write([]byte("abc"))
		},
		"late field": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			w.Header().Set("X-Late", "1")
			_, _ = w.Write([]byte("abc"))
		},
		"trailer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 5000))
			w.Header().Set(http.TrailerPrefix+"X-After", "1")
		},
		"copy": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("copied")) },
		"flush": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_,
				_ = w.Write([]byte("abc"))
		},
		"typed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("abc"))
		},
	}
	settings := conf.Settings{Logs: []conf.Log{{Path: filepath.Join(t.TempDir(), "log")}}, SendTimeout: time.Minute,
		Gzip: &conf.Gzip{MinLength: 1000}, Rate: "100m"}
	for name, handler := range handlers {
		bare, ours := frontOf(t, conf.Settings{}, handler), frontOf(t, settings, handler)
		for _, method := range []string{"GET", "HEAD"} {
			want, got := bare.do(method, "/", nil), ours.do(method, "/", nil)
			want.header.Del("Date")
			got.header.Del("Date")
			testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(want), method, name)
		}
	}
}

// replaceAll returns settings that replace all occurrences of a string.
func replaceAll(from, to conf.Text) conf.Settings {
	return conf.Settings{SubFilter: &conf.SubFilter{Substitutions: []conf.Substitution{{From: from, To: to}},
		Every: true}}
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
		s := replaceAll("needle", "$uri")
		s.Gzip = &conf.Gzip{}
		us := addedTo(t, s, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			write(w)
		}, added)
		want := "Needle of /before" + strings.ReplaceAll(text, "Needle", "/page") + "Needle of /after"
		for _, coding := range []string{"identity", "gzip"} {
			got := us.do("POST", "/page", strings.NewReader("body"), "Accept-Encoding", coding)
			if plainBody(t, got) != want || (coding == "gzip") != (got.header.Get("Content-Encoding") == "gzip") {
				t.Errorf("%s, %s: %d bytes, want %d, %q", name, coding, len(plainBody(t, got)), len(want), got.header)
			}
		}
	}
}

// addedTo serves a handler at /, with the bodies of two others before and after its responses.
func addedTo(t *testing.T, s conf.Settings, main, added http.HandlerFunc) *testClient {
	t.Helper()
	s.AddBefore, s.AddAfter = "/before", "/after"
	c := oneHost(app(s), conf.Location{Path: "/before", Internal: true, Proxy: &conf.Proxy{To: "added"}},
		conf.Location{Path: "/after", Internal: true, Proxy: &conf.Proxy{To: "added"}})
	return serveHandler(t, newFront(t, c, front.Bind("app", main), front.Bind("added", added)))
}

// If a handler of an added body panics, the client can tell that the response is incomplete.
func TestFailedAdditionEndsTheResponse(t *testing.T) {
	for _, fails := range []string{"/before", "/after"} {
		us := addedTo(t, conf.Settings{}, func(w http.ResponseWriter, _ *http.Request) {
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
	c := cached(to, conf.ProxyCache{Policy: conf.CachePolicy{Lock: true}, Key: "one"}, conf.Cache{Name: "one"})
	c.Hosts[0].Locations[0].Settings.AddBefore, c.Hosts[0].Locations[0].Settings.AddAfter = "/x", "/x"
	us := serveHandler(t, newFront(t, c))
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
	}
}

// With NoChunks a response of unknown length ends with its connection, and no other does, on
// net/http and on tare.
func TestNoChunksEndsWithConnection(t *testing.T) {
	h := newFront(t, oneHost(app(conf.Settings{NoChunks: true})), front.Bind("app", http.HandlerFunc(unsized)))
	for name, server := range map[string]*testClient{"net/http": serveHandler(t, h), "tare": serveByTare(t, h)} {
		for _, c := range []struct {
			line, contentType string
			closes            bool
		}{
			{"GET /long", "text/html; charset=utf-8", true}, {"GET /typed", "a/b", true},
			{"GET /flushed", "text/html; charset=utf-8", true},
			{"GET /coded", "text/html; charset=utf-8", true}, {"GET /trailer", "text/html; charset=utf-8", true},
			{"GET /short", "text/html; charset=utf-8", false},
			{"GET /length", "text/plain; charset=utf-8", false}, {"GET /none", "", false},
			{"GET /unmodified", "", false},
			{"GET /hints", "text/html; charset=utf-8", false}, {"HEAD /typed", "a/b", false},
		} {
			method, path, _ := strings.Cut(c.line, " ")
			r, _ := http.NewRequest(method, "http://front.test"+path, nil)
			resp := testkit.Value(server.client.Do(r))(t)
			body := testkit.Value(io.ReadAll(resp.Body))(t)
			resp.Body.Close()
			if resp.Close != c.closes || len(resp.TransferEncoding) > 0 || resp.Header["Transfer-Encoding"] != nil ||
				c.closes && resp.ContentLength >= 0 {
				t.Errorf("%s: %s: closes %v, %q, length %d", name, c.line, resp.Close, resp.TransferEncoding,
					resp.ContentLength)
			}
			testkit.Fields(t, resp.Header, name+": "+c.line, "Content-Type", c.contentType)
			if path == "/long" {
				testkit.Equal(t, string(body), longer, name, c.line)
			}
		}
	}
}

// HTTP/2 and FastCGI have no chunks, and responses do not end their connections.
func TestNoChunksDoesNotAffectHTTP2(t *testing.T) {
	h := newFront(t, oneHost(app(conf.Settings{NoChunks: true})), front.Bind("app", http.HandlerFunc(unsized)))
	two := serveHTTP2(t, h)
	l := testkit.Value(net.Listen("unix", filepath.Join(testkit.ShortDir(t), "s")))(t)
	cgi := &fcgi.Server{Handler: h}
	go func() { _ = cgi.Serve(l) }()
	defer cgi.Close()
	overCGI := &fcgi.Transport{Network: "unix", Addr: l.Addr().String()}
	defer overCGI.CloseIdleConnections()
	for name, client := range map[string]*http.Client{"HTTP/2": two.Client(), "FastCGI": {Transport: overCGI}} {
		resp := testkit.Value(client.Get(two.URL + "/long"))(t)
		body := testkit.Value(io.ReadAll(resp.Body))(t)
		resp.Body.Close()
		testkit.Equal(t, string(body), longer, name)
		testkit.Fields(t, resp.Header, name, "Transfer-Encoding", "", "Connection", "")
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
			id := strings.TrimPrefix(cookie, "uid=")
			if b, err := base64.StdEncoding.DecodeString(id); err != nil || len(b) != 16 || attributes != "path=/" ||
				seen[id] || seen[got.header.Get("X-Set")] || got.header.Get("X-Got") != "" {
				t.Fatalf("%s: %q", mode, got.header)
			}
			seen[id], seen[got.header.Get("X-Set")] = true, true
			again := us.get("/", "Cookie", "a=b; "+cookie)
			if again.header["Set-Cookie"] != nil || again.header.Get("X-Got") != got.header.Get("X-Set") {
				t.Fatalf("%s, in the next request: %q, after %q", mode, again.header, got.header)
			}
		}
	}
}
