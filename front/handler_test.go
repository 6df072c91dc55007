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
	"github.com/tarehq/tare/internal/testkit"
)

// site makes a directory with files. Names that end in a slash are directories, and each file
// contains its name.
func site(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if strings.HasSuffix(name, "/") {
			testkit.Must(t, os.MkdirAll(path, 0o755))
			continue
		}
		testkit.Must(t, os.WriteFile(path, []byte(name), 0o644))
	}
	return dir
}

// newFront returns a Handler that is closed at the end of the test.
func newFront(t testing.TB, c conf.Config, opts ...Option) *Handler {
	t.Helper()
	h, err := New(c, append([]Option{LogErrors(log.New(io.Discard, "", 0))}, opts...)...)
	testkit.Must(t, err)
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
	testkit.Must(t, err)
	return response{resp.StatusCode, string(body), resp.Header.Get("Location"), resp.Header}
}
