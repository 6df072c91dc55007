package front_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

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
			resp, err := server.client.Do(r)
			must(t, err)
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Errorf("%s: %s: %v", name, c.line, err)
			}
			if resp.Close != c.closes || len(resp.TransferEncoding) > 0 || resp.Header["Transfer-Encoding"] != nil ||
				c.closes && resp.ContentLength >= 0 {
				t.Errorf("%s: %s: closes %v, %q, length %d", name, c.line, resp.Close, resp.TransferEncoding,
					resp.ContentLength)
			}
			if got := resp.Header.Get("Content-Type"); got != c.contentType || path == "/long" &&
				string(body) != longer {
				t.Errorf("%s: %s: %s, %d bytes", name, c.line, got, len(body))
			}
		}
	}
}

// HTTP/2 and FastCGI have no chunks, and responses do not end their connections.
func TestNoChunksDoesNotAffectHTTP2(t *testing.T) {
	h := newFront(t, oneHost(app(conf.Settings{NoChunks: true})), front.Bind("app", http.HandlerFunc(unsized)))
	two := httptest.NewUnstartedServer(h)
	two.EnableHTTP2 = true
	two.StartTLS()
	defer two.Close()
	l, err := net.Listen("unix", filepath.Join(shortDir(t), "s"))
	must(t, err)
	cgi := &fcgi.Server{Handler: h}
	go func() { _ = cgi.Serve(l) }()
	defer cgi.Close()
	overCGI := &fcgi.Transport{Network: "unix", Addr: l.Addr().String()}
	defer overCGI.CloseIdleConnections()
	for name, client := range map[string]*http.Client{"HTTP/2": two.Client(), "FastCGI": {Transport: overCGI}} {
		resp, err := client.Get(two.URL + "/long")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != longer || resp.Header["Transfer-Encoding"] != nil ||
			resp.Header["Connection"] != nil {
			t.Errorf("%s: %d bytes, %v, %q", name, len(body), err, resp.Header)
		}
	}
}
