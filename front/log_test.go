package front_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// Panics, streams, hijacked connections and empty responses are logged.
func TestEveryRequestIsLogged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	us := frontOf(t, conf.Settings{Logs: []conf.Log{{Path: name}}}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/late":
			_, _ = io.WriteString(w, "late")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/over":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			conn.Close()
		case "/early":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
			w.WriteHeader(http.StatusOK)
		case "/copy":
			_, _ = io.Copy(w, strings.NewReader("copied"))
		}
	})
	for i, path := range []string{"/panic", "/late", "/over"} {
		conn, err := net.Dial("unix", us.socket)
		must(t, err)
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		_, _ = io.ReadAll(conn)
		conn.Close()
		awaitLines(t, name, i+1) // a handler closes a hijacked connection before its request ends
	}
	us.get("/early")
	us.get("/copy")
	us.get("/nothing")
	lines := awaitLines(t, name, 6)
	for i, want := range []string{`/panic HTTP/1.1" 500 0 `, `/late HTTP/1.1" 200 4 `, `/over HTTP/1.1" 101 0 `,
		`/early HTTP/1.1" 418 0 `, `/copy HTTP/1.1" 200 6 `, `/nothing HTTP/1.1" 200 0 `} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("%q, want %q in it", lines[i], want)
		}
	}
}

// $content_length is known of a body in chunks once it was read, as in nginx, which reads it before
// it calls an upstream.
func TestLengthOfReadBodyIsLogged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	c := oneHost(app(conf.Settings{Logs: []conf.Log{{Path: name, Format: "length"}}}))
	c.LogFormats = []conf.LogFormat{{Name: "length", Text: "$uri $content_length $http_content_length"}}
	us := serveHandler(t, newFront(t, c, front.Bind("app", http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/read" {
				_, _ = io.Copy(io.Discard, r.Body)
			}
		}))))
	for _, path := range []string{"/read", "/unread"} {
		us.do("POST", path, io.MultiReader(strings.NewReader("in chunks")))
		us.do("POST", path, strings.NewReader("with a length"))
	}
	want := "/read 9 -,/read 13 13,/unread - -,/unread 13 13"
	if got := strings.Join(awaitLines(t, name, 4), ","); strings.ReplaceAll(got, "\n", "") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

// A log that was renamed continues in a new file after ReopenLogs, and after a reload.
func TestRenamedLogIsReopened(t *testing.T) {
	dir := t.TempDir()
	name, old := filepath.Join(dir, "log"), filepath.Join(dir, "old")
	c := oneHost(app(conf.Settings{Logs: []conf.Log{{Path: name}}}))
	h := newFront(t, c, front.Bind("app", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	us := serveHandler(t, h)
	us.get("/1")
	awaitLines(t, name, 1)
	must(t, os.Rename(name, old))
	must(t, h.Reload(oneHost(c.Hosts[0].Locations...)))
	us.get("/2")
	awaitLines(t, old, 2)
	must(t, h.ReopenLogs(t.Context()))
	us.get("/3")
	if lines := awaitLines(t, name, 1); !strings.Contains(lines[0], "/3") {
		t.Errorf("%q", lines)
	}
	must(t, os.RemoveAll(dir))
	if err := h.ReopenLogs(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v", err)
	}
	us.get("/4") // it continues with the open file
}

// A line of the error log describes the client and the request, with foreign data quoted.
func TestErrorLogLineDescribesRequest(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	c := oneHost(conf.Location{Path: "/", Settings: &conf.Settings{
		Access: []conf.AccessRule{{Deny: true}}, ErrorLog: &conf.ErrorLog{Path: name},
	}})
	c.Hosts[0].Names = []string{"front.test"}
	us := serveHandler(t, newFront(t, c))
	us.lines("GET", "/a\"\\\xff", "Referer: x\"y", "Connection: close")
	want := regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[error\] \d+#0: access forbidden by rule, client: unix:, server: front\.test, ` +
		`request: "GET /a\\"\\\\\\xff HTTP/1\.1", host: "front\.test", referrer: "x\\"y"$`)
	if line := strings.TrimSpace(awaitLines(t, name, 1)[0]); !want.MatchString(line) {
		t.Errorf("%s", line)
	}
}
