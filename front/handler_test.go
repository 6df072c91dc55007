package front

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
)

// site makes a directory with files. Names that end in a slash are directories, and each file
// contains its name.
func site(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// newFront returns a Handler that is closed at the end of the test.
func newFront(t testing.TB, c conf.Config, opts ...Option) *Handler {
	t.Helper()
	h, err := New(c, append([]Option{LogErrors(log.New(io.Discard, "", 0))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// response is what a test compares of a response.
type response struct {
	status         int
	body, location string
	header         http.Header
}

// get sends a request to a handler in memory: an optional method, and a target.
func get(t testing.TB, h http.Handler, target string, fields ...string) response {
	t.Helper()
	method, uri, ok := strings.Cut(target, " ")
	if !ok {
		method, uri = http.MethodGet, target
	}
	r := httptest.NewRequest(method, uri, nil)
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Host" {
			r.Host = fields[i+1]
		} else {
			r.Header.Add(fields[i], fields[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	resp := w.Result()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{resp.StatusCode, string(body), resp.Header.Get("Location"), resp.Header}
}

func TestHandlerResponds(t *testing.T) {
	dir := site(t, "index.html", "a/index.html", "a/x.txt", "b/", "f.html")
	h := newFront(t, conf.Config{Hosts: []conf.Host{{Locations: []conf.Location{
		{Path: "/", Settings: &conf.Settings{Files: conf.Files{Root: conf.Text(dir)}}},
		{Path: "/r", Steps: []conf.Step{conf.Return{Status: 200, Text: "hi $uri$is_args$args"}}},
		{Path: "/go/", Proxy: &conf.Proxy{To: "app"}},
	}}}}, Bind("app", http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		io.WriteString(w, "app "+r.URL.Path)
	})))
	for _, test := range []struct {
		line, body string
		status     int
		location   string
	}{
		{"/", "index.html", 200, ""},
		{"/a/", "a/index.html", 200, ""},
		{"/a", "", 301, "http://example.com/a/"},
		{"/a/x.txt", "a/x.txt", 200, ""},
		{"/b/", "", 403, ""},
		{"/none", "", 404, ""},
		{"/r?x=1", "hi /r?x=1", 200, ""},
		{"/go/x", "app /go/x", 200, ""},
		{"/go?q", "", 301, "http://example.com/go/?q"},
		{"POST /a/x.txt", "", 405, ""},
		{"/../x", "", 400, ""},
	} {
		got := get(t, h, test.line)
		if got.status != test.status || test.body != "" && got.body != test.body || got.location != test.location {
			t.Errorf("%s: %d %q %q", test.line, got.status, got.location, got.body)
		}
	}
}
