package front_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit"
)

// maxWait bounds waiting for what is fast unless it hangs.
const maxWait = time.Minute

// newFront returns a handler that is closed at the end of the test. By default it logs no errors.
func newFront(t testing.TB, c conf.Config, options ...front.Option) *front.Handler {
	t.Helper()
	h := testkit.Value(front.New(c, append([]front.Option{quiet()}, options...)...))(t)
	t.Cleanup(func() {
		testkit.Check(t, h.Close())
	})
	return h
}

// testClient sends requests to a server over a unix socket, which needs no port.
type testClient struct {
	t      testing.TB
	client *http.Client
	socket string
}

func newTestClient(t testing.TB, socket string) *testClient {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DialContext: dial, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	follow := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &testClient{t, &http.Client{Transport: transport, CheckRedirect: follow}, socket}
}

// clientOf returns a client of a server that package httptest runs. Its requests are for URLs.
func clientOf(t testing.TB, s *httptest.Server) *testClient {
	return &testClient{t: t, client: s.Client()}
}

// response is a response with its whole body, and the request in words.
type response struct {
	request string
	proto   string
	status  int
	header  http.Header
	body    string
	trailer http.Header
}

// is fails unless the response has the status, and the body if there is one.
func (r response) is(t testing.TB, status int, body ...string) {
	t.Helper()
	if r.status != status || len(body) > 0 && r.body != body[0] {
		t.Errorf("%s: %d %.200q, want %d %.200q", r.request, r.status, r.body, status, body)
	}
}

func (a *testClient) get(path string, fields ...string) response {
	return a.do("GET", path, nil, fields...)
}

// do sends a request. fields are names and values.
func (a *testClient) do(method, path string, body io.Reader, fields ...string) response {
	a.t.Helper()
	return testkit.Value(a.attempt(method, path, body, fields...))(a.t)
}

// attempt sends a request, to host front.test or to a URL, and returns what arrives of the response.
func (a *testClient) attempt(method, path string, body io.Reader, fields ...string) (response, error) {
	if strings.HasPrefix(path, "/") {
		path = "http://front.test" + path
	}
	r, err := http.NewRequest(method, path, body)
	if err != nil {
		return response{}, err
	}
	addFields(r, fields)
	resp, err := a.client.Do(r)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return response{fmt.Sprint(method, " ", path, fields), resp.Proto, resp.StatusCode, resp.Header, string(b),
		resp.Trailer}, err
}

// addFields adds fields to a request. They are names and values.
func addFields(r *http.Request, fields []string) {
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Host" {
			r.Host = fields[i+1]
		} else {
			r.Header.Add(fields[i], fields[i+1])
		}
	}
}

// fieldsOf returns the names and values in "NAME: VALUE;…".
func fieldsOf(text string) (fields []string) {
	for field := range strings.SplitSeq(text, ";") {
		if name, value, ok := strings.Cut(field, ": "); ok {
			fields = append(fields, name, value)
		}
	}
	return fields
}

// serveHandler serves on a unix socket until the end of the test.
func serveHandler(t testing.TB, h http.Handler) *testClient {
	t.Helper()
	socket := filepath.Join(testkit.ShortDir(t), "s")
	serveAt(t, testkit.Value(net.Listen("unix", socket))(t), h)
	return newTestClient(t, socket)
}

// dial connects to a server until the end of the test, with a deadline, and sends a text.
func dial(t testing.TB, network, addr, text string) net.Conn {
	t.Helper()
	nc := testkit.Value(net.Dial(network, addr))(t)
	t.Cleanup(func() { nc.Close() })
	testkit.Must(t, nc.SetDeadline(time.Now().Add(maxWait)))
	testkit.Send(t, nc, text)
	return nc
}

// site makes a directory with files, each of which contains its name.
func site(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		testkit.WriteFile(t, filepath.Join(dir, name), name)
	}
	return dir
}

// oneHost returns a Config with one host.
func oneHost(locations ...conf.Location) conf.Config {
	return conf.Config{Hosts: []conf.Host{{Locations: locations}}}
}

// rejects fails unless a Config is an error that contains a text.
func rejects(t testing.TB, c conf.Config, want string) {
	t.Helper()
	h, err := front.New(c, quiet())
	if err == nil {
		_ = h.Close()
	}
	testkit.Error(t, err, want)
}

// app returns a location / with the bound handler "app".
func app(s conf.Settings) conf.Location {
	return conf.Location{Path: "/", Proxy: &conf.Proxy{To: "app"}, Settings: &s}
}

// frontOf serves a bound handler with settings.
func frontOf(t testing.TB, s conf.Settings, h http.HandlerFunc) *testClient {
	t.Helper()
	return serveHandler(t, newFront(t, oneHost(app(s)), front.Bind("app", h)))
}

// awaitFile returns the content of a file once it is enough.
func awaitFile(t testing.TB, name string, enough func(b []byte) bool) (b []byte) {
	t.Helper()
	testkit.WaitFor(t, "the content of "+name, func() bool {
		var err error
		b, err = os.ReadFile(name)
		return err == nil && enough(b)
	})
	return b
}

func awaitLines(t testing.TB, name string, n int) []string {
	t.Helper()
	b := awaitFile(t, name, func(b []byte) bool { return bytes.Count(b, []byte("\n")) >= n })
	return strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
}

// get sends a request to a handler in memory: an optional method, and a target.
func get(t testing.TB, h http.Handler, target string, fields ...string) response {
	t.Helper()
	method, uri, ok := strings.Cut(target, " ")
	if !ok {
		method, uri = http.MethodGet, target
	}
	r := httptest.NewRequest(method, uri, nil)
	addFields(r, fields)
	return responseTo(h, r)
}

// responseTo returns a handler's response to a request in memory.
func responseTo(h http.Handler, r *http.Request) response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	request := fmt.Sprint(r.Method, " ", r.Host, r.RequestURI, " ", r.Header, " from ", r.RemoteAddr)
	return response{request: request, status: w.Code, header: w.Result().Header, body: w.Body.String()}
}

// serveText starts an upstream that sends a text for the first request of a connection, and closes it.
func serveText(t testing.TB, text string) (addr string) {
	return testkit.ServeTCP(t, func(nc net.Conn) {
		if readHead(nc) == nil {
			_, _ = io.WriteString(nc, text)
		}
	})
}

// serveTunnels starts an upstream that switches protocols, and sends back what it receives.
func serveTunnels(t testing.TB) (addr string) {
	return testkit.ServeTCP(t, func(nc net.Conn) {
		if readHead(nc) == nil {
			_, _ = io.WriteString(nc, switching)
			_, _ = io.Copy(nc, nc)
		}
	})
}

func readHead(nc net.Conn) error {
	_, err := http.ReadRequest(bufio.NewReader(nc))
	return err
}

// h2Client is a client of HTTP/2 that reads frames.
type h2Client struct {
	*http2.Framer
	nc net.Conn
}

// startH2 begins HTTP/2 on a connection. window is that of a response's body.
func startH2(t testing.TB, nc net.Conn, window uint32) *h2Client {
	t.Helper()
	t.Cleanup(func() { nc.Close() })
	testkit.Must(t, nc.SetDeadline(time.Now().Add(maxWait)))
	testkit.Send(t, nc, http2.ClientPreface)
	c := &h2Client{http2.NewFramer(nc, nc), nc}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	testkit.Must(t, c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	return c
}

// request sends a head with those fields that have a value, on stream 1. A GET ends with it.
func (c *h2Client) request(t testing.TB, fields ...string) {
	t.Helper()
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			testkit.Must(t, e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
		}
	}
	testkit.Must(t, c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true,
		EndStream: fields[1] == http.MethodGet}))
}

// overTLS connects to a server of HTTP/2, with a name in the handshake.
func overTLS(t testing.TB, addr, serverName string) net.Conn {
	t.Helper()
	nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"},
		ServerName: serverName})
	testkit.Must(t, err)
	return nc
}

// serveTest serves on net/http until the end of the test. change may be nil.
func serveTest(t testing.TB, h http.Handler, change func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if change != nil {
		change(s)
	}
	if s.TLS != nil {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// serveAt serves on a listener.
func serveAt(t testing.TB, l net.Listener, h http.Handler) *httptest.Server {
	t.Helper()
	return serveTest(t, h, func(s *httptest.Server) {
		s.Listener.Close()
		s.Listener = l
	})
}

// unencryptedHTTP2 serves HTTP/1, and HTTP/2 without TLS.
func unencryptedHTTP2(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	return serveTest(t, h, func(s *httptest.Server) {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
	})
}

// serveHTTP2 serves by HTTP/2, and HTTP/1, over TLS.
func serveHTTP2(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	return serveTest(t, h, func(s *httptest.Server) { s.EnableHTTP2, s.TLS = true, new(tls.Config) })
}

// serveTLS serves over TLS.
func serveTLS(t testing.TB, config *tls.Config, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	return serveTest(t, h, func(s *httptest.Server) { s.TLS = config })
}

// runTare serves on tare until the end of the test. Its server reuses the memory of requests, and
// sends fields as they are.
func runTare(t testing.TB, l net.Listener, h http.Handler) *tare.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := tare.Wrap(&http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), Protocols: protocols})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return s
}

// serveOnTare serves on tare, and returns the address.
func serveOnTare(t testing.TB, h http.Handler) string {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	runTare(t, l, h)
	return l.Addr().String()
}

// serveByTare is serveHandler on tare.
func serveByTare(t testing.TB, h http.Handler) *testClient {
	t.Helper()
	socket := filepath.Join(testkit.ShortDir(t), "s")
	runTare(t, testkit.Value(net.Listen("unix", socket))(t), h)
	return newTestClient(t, socket)
}

// parseConf reads a configuration with a server block. DIR in it is a directory.
func parseConf(t testing.TB, outer, server string, bound ...string) conf.Config {
	t.Helper()
	dir := testkit.ShortDir(t)
	text := fmt.Sprintf("events {} http { access_log off; default_type text/plain; %s server { listen 80; %s } }", outer,
		server)
	name := filepath.Join(dir, "nginx.conf")
	testkit.Must(t, os.WriteFile(name, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
	return testkit.Value(nginxconf.Parse(name, nginxconf.Options{Prefix: dir, Bound: bound}))(t).Config
}

// handlers are bound handlers, by their names.
type handlers map[string]http.HandlerFunc

// confFront returns a Handler for a server block.
func confFront(t testing.TB, outer, server string, bound handlers, options ...front.Option) *front.Handler {
	t.Helper()
	for name, h := range bound {
		options = append(options, front.Bind(name, h))
	}
	return newFront(t, parseConf(t, outer, server, slices.Collect(maps.Keys(bound))...), options...)
}

// passTo returns a location / with an upstream.
func passTo(to string) string { return "location / { proxy_pass http://" + to + "; }" }

// serveConf serves a server block by a Handler.
func serveConf(t testing.TB, outer, server string, options ...front.Option) *testClient {
	t.Helper()
	return serveHandler(t, confFront(t, outer, server, nil, options...))
}

// serveBound serves a server block by a Handler, with bound handlers.
func serveBound(t testing.TB, outer, server string, bound handlers) *testClient {
	t.Helper()
	return serveHandler(t, confFront(t, outer, server, bound))
}

// besideNginx serves a server block by a real nginx and by a Handler.
func besideNginx(t testing.TB, outer, server string) (nginx, tare *testClient) {
	t.Helper()
	nginx, _ = serveNginx(t, outer, server)
	return nginx, serveConf(t, outer, server)
}
