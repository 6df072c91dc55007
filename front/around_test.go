package front_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
)

// patience is for what never takes so long, unless it hangs.
const patience = time.Minute

// newFront makes a handler that is closed when the test ends.
func newFront(t testing.TB, c front.Config, options ...front.Option) *front.Handler {
	t.Helper()
	h, err := front.New(c, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asker asks a server, over a unix socket, so that it needs no port.
type asker struct {
	t      testing.TB
	client *http.Client
	socket string
}

func newAsker(t testing.TB, socket string) *asker {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DialContext: dial, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	follow := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &asker{t, &http.Client{Transport: transport, CheckRedirect: follow}, socket}
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

func (a *asker) get(path string, fields ...string) reply { return a.ask("GET", path, nil, fields...) }

// ask sends a request with fields, name after name and value.
func (a *asker) ask(method, path string, body io.Reader, fields ...string) reply {
	a.t.Helper()
	r, err := http.NewRequest(method, "http://front.test"+path, body)
	if err != nil {
		a.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	resp, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

// serveHandler serves on a unix socket until the test ends.
func serveHandler(t testing.TB, h http.Handler) *asker {
	t.Helper()
	socket := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}}
	s.Start()
	t.Cleanup(s.Close)
	return newAsker(t, socket)
}

// shortDir is a directory whose name leaves room for that of a socket in it.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "front")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// oneHost is a Config of a host with locations.
func oneHost(locations ...front.Location) front.Config {
	return front.Config{Hosts: []front.Host{{Locations: locations}}}
}

// app is the location / of a handler that is bound as "app".
func app(s front.Settings) front.Location {
	return front.Location{Path: "/", Proxy: &front.Proxy{To: "app"}, Settings: s}
}

// frontOf serves a bound handler with settings.
func frontOf(t testing.TB, s front.Settings, h http.HandlerFunc) *asker {
	t.Helper()
	return serveHandler(t, newFront(t, oneHost(app(s)), front.Bind("app", h), quiet()))
}

// awaitFile returns what a file has once it is enough.
func awaitFile(t testing.TB, name string, enough func(b []byte) bool) []byte {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		b, err := os.ReadFile(name)
		if err == nil && enough(b) {
			return b
		}
		if time.Now().After(late) {
			t.Fatalf("%s has %q, %v", name, b, err)
		}
	}
}

func awaitLines(t testing.TB, name string, n int) []string {
	t.Helper()
	b := awaitFile(t, name, func(b []byte) bool { return bytes.Count(b, []byte("\n")) >= n })
	return strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
}
