package files_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

// site is a directory to serve, next to a secret that no response may contain.
type site struct {
	t   testing.TB
	dir string // served
	out string // not served
}

const secret = "THIS LIES OUTSIDE OF THE ROOT"

// newSite returns a site with files, whose names and contents alternate.
func newSite(t testing.TB, files ...string) *site {
	t.Helper()
	top := t.TempDir()
	s := &site{t, filepath.Join(top, "root"), filepath.Join(top, "outside")}
	s.must(os.Mkdir(s.dir, 0o755))
	s.must(os.Mkdir(s.out, 0o755))
	s.must(os.WriteFile(filepath.Join(s.out, "secret.txt"), []byte(secret), 0o644))
	for f := range slices.Chunk(files, 2) {
		s.write(f[0], f[1])
	}
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// write writes a file with an old time, so that nothing waits for its stamp to ripen.
func (s *site) write(name, content string) {
	s.t.Helper()
	testkit.WriteFile(s.t, s.path(name), content)
	s.must(os.Chtimes(s.path(name), past, past))
}

var past = time.Date(2020, 2, 3, 4, 5, 6, 789, time.UTC)

func (s *site) handler(c files.Config) *files.Handler {
	s.t.Helper()
	if c.Root == nil {
		c.Dir = s.dir
	}
	h := testkit.Value(files.New(c))(s.t)
	s.t.Cleanup(func() { _ = h.Close() })
	return h
}

// host is a server that runs a handler.
type host struct {
	name   string
	url    string
	addr   string // of HTTP/1.1 without TLS; otherwise empty
	client *http.Client
}

// hosts runs a handler on each kind of server.
func hosts(t testing.TB, h http.Handler) []host {
	t.Helper()
	std := httptest.NewServer(h)
	t.Cleanup(std.Close)
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	ours := tare.Wrap(&http.Server{Handler: h})
	go func() { _ = ours.Serve(l) }()
	t.Cleanup(func() { _ = ours.Close() })
	two := httptest.NewUnstartedServer(h)
	two.EnableHTTP2 = true
	two.StartTLS()
	t.Cleanup(two.Close)
	plain := func() *http.Client {
		tr := &http.Transport{DisableCompression: true}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, CheckRedirect: stay}
	}
	secure := two.Client()
	secure.CheckRedirect = stay
	secure.Transport.(*http.Transport).DisableCompression = true
	return []host{
		{"net/http", std.URL, std.Listener.Addr().String(), plain()},
		{"tare", "http://" + l.Addr().String(), l.Addr().String(), plain()},
		{"h2", two.URL, "", secure},
	}
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// response is a response with its body.
type response struct {
	status int
	header http.Header
	body   string
}

// request sends a request with an unmodified path. Fields are "Name: value".
func (s host) request(t testing.TB, method, path string, fields ...string) response {
	t.Helper()
	a, err := s.try(method, path, fields...)
	if err != nil {
		t.Fatalf("%s %s %s: %v", s.name, method, path, err)
	}
	return a
}

func (s host) try(method, path string, fields ...string) (a response, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url, nil)
	if err != nil {
		return a, err
	}
	where, query, _ := strings.Cut(path, "?")
	r.URL.Opaque, r.URL.RawQuery = "//"+r.URL.Host+where, query
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Add(name, value)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(b)}, err
}

// raw sends bytes over a new connection and returns the response, for HTTP/1.1 only.
func (s host) raw(t testing.TB, target string) (status int, body string) {
	t.Helper()
	c := testkit.Value(net.Dial("tcp", s.addr))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s %q: %v", s.name, target, err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// onEach runs a test on each kind of server.
func onEach(t *testing.T, h http.Handler, f func(t *testing.T, s host)) {
	for _, s := range hosts(t, h) {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
	}
}

func large(seed byte, n int) string {
	b := bytes.Repeat([]byte{0}, n)
	x := uint32(seed) + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return string(b)
}

func escape(path string) string { return (&url.URL{Path: path}).EscapedPath() }
