package fcgi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// ProcessEnv returns the parameters that the Request does not contain, in a map of the caller's.
func TestProcessEnvHasParamsOutsideRequest(t *testing.T) {
	at := runServer(t, func(w http.ResponseWriter, r *http.Request) {
		// with a derived context
		env := fcgi.ProcessEnv(r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, 1)))
		env["DOCUMENT_ROOT"] = "overwritten"
		fmt.Fprint(w, fcgi.ProcessEnv(r))
	})
	c := dial(t, at)
	testkit.Send(t, c, oneRequest(false, "/", "", "DOCUMENT_ROOT", "/srv", "REMOTE_USER", "ann", "HTTP_X", "x",
		"HTTPS", "on", "PATH_INFO", "/", "QUERY_STRING", "", "SCRIPT_NAME", "/", "REMOTE_ADDR", "::1",
		"REMOTE_PORT", "1", "REMOTE_HOST", "a", "CONTENT_TYPE", "a/b", "HTTPSX", "", "AUTH_TYPE", "Basic",
		"REMOTE_USER", "bob"))
	got := string(testkit.Value(io.ReadAll(c))(t))
	testkit.Contains(t, got, "\r\n\r\nmap[AUTH_TYPE:Basic DOCUMENT_ROOT:/srv HTTPSX: REMOTE_USER:bob]")
	testkit.Equal(t, fcgi.ProcessEnv(httptest.NewRequest(http.MethodGet, "/", nil)), nil, "an HTTP request")
}

// wrapper is a middleware's ResponseWriter.
type wrapper struct{ http.ResponseWriter }

func (w wrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Stderr finds the stream through a middleware's ResponseWriter, and returns nil if there is none.
func TestStderrUnwrapsResponseWriter(t *testing.T) {
	at := runServer(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(fcgi.Stderr(wrapper{wrapper{w}}), "one ")
		io.WriteString(w, "body")
		io.WriteString(fcgi.Stderr(w), "two ")
		io.Copy(fcgi.Stderr(w), strings.NewReader("three"))
	})
	var got strings.Builder
	must(t, checked(t, &fcgi.Transport{Addr: at.String(),
		Stderr: func(_ *http.Request, text []byte) { got.Write(text) }}), get(t, address), "body")
	testkit.Equal(t, got.String(), "one two three")
	testkit.Equal(t, fcgi.Stderr(wrapper{httptest.NewRecorder()}), nil, "a recorder")
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	web := tare.Wrap(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, fcgi.Stderr(w), fcgi.ProcessEnv(r))
	})})
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	defer func() { web.Close(); <-served }()
	resp := testkit.Value(http.Get("http://" + l.Addr().String()))(t)
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	testkit.Equal(t, string(b), "<nil> map[]", "over HTTP")
}

func TestServerFieldsHaveTheirEffects(t *testing.T) {
	type key struct{}
	var logged testkit.Log
	whole := oneRequest(true, "/", "body")
	both := whole + oneRequest(false, "/", "last")
	for name, test := range map[string]struct {
		server *fcgi.Server
		send   string
		want   string // in what is received before the connection is closed
	}{
		"nothing":           {&fcgi.Server{}, both, "last false <nil>"},
		"ReadParamsTimeout": {&fcgi.Server{ReadParamsTimeout: time.Second}, whole[:30], ""},
		"ReadTimeout":       {&fcgi.Server{ReadTimeout: time.Second}, whole[:len(whole)-10], "bo true <nil>"},
		"IdleTimeout":       {&fcgi.Server{IdleTimeout: time.Second}, whole, "body false <nil>"},
		"WriteTimeout":      {&fcgi.Server{WriteTimeout: time.Second}, oneRequest(true, "/slow", ""), ""},
		"MaxParamBytes": {&fcgi.Server{MaxParamBytes: 100}, oneRequest(true, "/"+strings.Repeat("x", 6000), ""),
			"431 Request Header Fields Too Large"},
		"BaseContext": {&fcgi.Server{BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), key{}, "base")
		}}, both, "last false base"},
		"Dispatch": {&fcgi.Server{Dispatch: tare.OwnGoroutine}, both, "last false <nil>"},
		"ErrorLog": {&fcgi.Server{ErrorLog: log.New(&logged, "", 0)}, "GET / HTTP/1.1\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b, err := io.ReadAll(r.Body)
					if r.URL.Path == "/slow" {
						time.Sleep(2 * time.Second)
					}
					fmt.Fprintf(w, "%s %v %v", b, err != nil, r.Context().Value(key{}))
				})
				began := time.Now()
				var network testkit.Network
				served, l := make(chan error), network.Listen()
				go func() { served <- test.server.Serve(l) }()
				c := testkit.Value(network.Dial())(t)
				testkit.Send(t, c, test.send)
				got := string(testkit.Value(io.ReadAll(c))(t))
				testkit.Contains(t, got, test.want)
				testkit.Equal(t, got == "", test.want == "", "no response")
				testkit.Between(t, time.Since(began), 0, 2*time.Second)
				testkit.Check(t, test.server.Close())
				testkit.Is(t, <-served, http.ErrServerClosed)
			})
		})
	}
	testkit.Contains(t, logged.String(), "unsupported FastCGI version", "logged")
}

func TestBodyReadReturnsExportedErrors(t *testing.T) {
	ended := make(chan error, 1)
	at := runServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ended <- err
	})
	part := strings.TrimSuffix(oneRequest(true, "/", "body"), "\x01\x05\x00\x01\x00\x00\x00\x00")
	part = strings.Replace(part, "CONTENT_LENGTH4", "CONTENT_LENGTH5", 1)
	io.WriteString(dial(t, at), part+"\x01\x02\x00\x01\x00\x00\x00\x00")
	testkit.Is(t, <-ended, fcgi.ErrRequestAborted)
	c := dial(t, at)
	io.WriteString(c, part)
	c.Close()
	testkit.Is(t, <-ended, fcgi.ErrConnClosed)
}

func TestServeReturnsAcceptError(t *testing.T) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error)
	go func() { served <- fcgi.Serve(l, http.NotFoundHandler()) }()
	must(t, checked(t, &fcgi.Transport{Addr: l.Addr().String()}), get(t, address), "404 page not found\n")
	l.Close()
	testkit.Is(t, <-served, net.ErrClosed, "Serve")
}

// TestServedByStandardInput is the process that TestServeUsesStandardInput starts.
func TestServedByStandardInput(t *testing.T) {
	if os.Getenv("TARE_FCGI_STDIN") == "" {
		t.Skip("TestServeUsesStandardInput runs it")
	}
	s := new(fcgi.Server)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, fcgi.ProcessEnv(r)["DOCUMENT_ROOT"])
		if r.URL.Path == "/stop" {
			go s.Shutdown(context.Background())
		}
	})
	testkit.Is(t, s.Serve(nil), http.ErrServerClosed, "Serve")
	testkit.Check(t, s.Shutdown(context.Background()))
}

// A web server, or spawn-fcgi, starts an application with the listening socket as its standard
// input.
func TestServeUsesStandardInput(t *testing.T) {
	for network, at := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			l := testkit.Value(net.Listen(network, at))(t)
			defer l.Close()
			f := testkit.Value(l.(interface{ File() (*os.File, error) }).File())(t)
			defer f.Close()
			child := testkit.Command(t, os.Args[0], "-test.run=^TestServedByStandardInput$")
			child.Env, child.Stdin = append(os.Environ(), "TARE_FCGI_STDIN=1", "GORACE=atexit_sleep_ms=0"), f
			var output bytes.Buffer
			child.Stdout, child.Stderr = &output, &output
			testkit.Must(t, child.Start())
			tr := checked(t, &fcgi.Transport{Network: network, Addr: l.Addr().String(), Root: "/srv",
				MaxIdleConnsPerHost: 1})
			for _, path := range []string{"1", "2", "stop"} {
				must(t, tr, get(t, address+path), "/"+path+"/srv")
			}
			if err := child.Wait(); err != nil {
				t.Errorf("the server ended with %v\n%s", err, output.Bytes())
			}
		})
	}
}

func TestServeFailsWithoutListeningStandardInput(t *testing.T) {
	child := testkit.Command(t, os.Args[0], "-test.run=^TestServedByStandardInput$")
	child.Env = append(os.Environ(), "TARE_FCGI_STDIN=1") // without standard input
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(string(out), "Serve: file") {
		t.Errorf("it printed %s, %v", out, err)
	}
}

// dial connects to an application, with a deadline in case that hangs.
func dial(t testing.TB, at net.Addr) net.Conn {
	t.Helper()
	c := testkit.Value(net.Dial(at.Network(), at.String()))(t)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// oneRequest returns a request with the given parameters, besides the common ones.
func oneRequest(keep bool, path, body string, pairs ...string) string {
	b := wire.AppendBegin(nil, 1, wire.Begin{Role: wire.Responder, Keep: keep})
	var list []byte
	pairs = slices.Concat([]string{"REQUEST_METHOD", "POST", "SERVER_PROTOCOL", "HTTP/1.1", "REQUEST_URI", path,
		"CONTENT_LENGTH", fmt.Sprint(len(body))}, pairs)
	for pair := range slices.Chunk(pairs, 2) {
		list = wire.AppendPair(list, pair[0], pair[1])
	}
	b = wire.AppendStreamEnd(wire.AppendStream(b, wire.Params, 1, list), wire.Params, 1)
	return string(wire.AppendStreamEnd(wire.AppendStream(b, wire.Stdin, 1, []byte(body)), wire.Stdin, 1))
}

// runServer serves an address until the test ends.
func runServer(t testing.TB, handler http.HandlerFunc) net.Addr {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	serve(t, &fcgi.Server{Handler: handler}, l)
	return l.Addr()
}

// serve serves a listener until the test ends, and then checks that nothing is left.
func serve(t testing.TB, s *fcgi.Server, l net.Listener) {
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		testkit.Check(t, s.Shutdown(context.Background()))
		testkit.Is(t, <-served, http.ErrServerClosed, "Serve")
	})
}
