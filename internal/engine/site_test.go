package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// modes are the kinds of connection over which tests run.
var modes = map[string]func(*testing.T) (net.Listener, func() (net.Conn, error)){
	"tcp": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		return listen(t, "tcp", "127.0.0.1:0")
	},
	"unix": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		return listen(t, "unix", filepath.Join(t.TempDir(), "s"))
	},
	"net.Conn": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		l, dial := listen(t, "tcp", "127.0.0.1:0")
		// a listener of another type: its connections take the goroutine path
		return struct{ net.Listener }{l}, dial
	},
	"memory": func(*testing.T) (net.Listener, func() (net.Conn, error)) {
		nw := new(testkit.Network)
		return nw.Listen(), func() (net.Conn, error) { return nw.Dial() }
	},
	"tls": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		l, config, dial := listenTLS(t)
		return tls.NewListener(l, config), dial
	},
	// on Linux its connections are served on shards
	"ServeTLS": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		l, config, dial := listenTLS(t)
		return secureListener{l, config}, dial
	},
}

// secureListener makes goServe call ServeTLS.
type secureListener struct {
	net.Listener
	config *tls.Config
}

// listenTLS returns a listener of package net, a configuration for it, and a function that returns
// TLS connections to it.
func listenTLS(t *testing.T) (net.Listener, *tls.Config, func() (net.Conn, error)) {
	l, dial := listen(t, "tcp", "127.0.0.1:0")
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{"h2"}}
	return l, config, func() (net.Conn, error) {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		// the curve that takes least CPU time
		return tls.Client(c, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.CurveP256}}), nil
	}
}

// certificate returns a certificate whose signatures take less CPU time than those of package
// httptest's.
func certificate(t *testing.T) tls.Certificate {
	own := tlstest.Issue(t, x509.Certificate{}, nil)
	return tls.Certificate{Certificate: [][]byte{own.Raw}, PrivateKey: own.Key, Leaf: own.Certificate}
}

func listen(t *testing.T, network, address string) (net.Listener, func() (net.Conn, error)) {
	l := testkit.Value(net.Listen(network, address))(t)
	return l, func() (net.Conn, error) { return net.Dial(network, l.Addr().String()) }
}

type site struct {
	*testing.T
	mode   string
	url    string
	server *engine.Server // nil for net/http's
	dial   func() (net.Conn, error)
	client *http.Client
	logged *testkit.Log
}

func everyMode(t *testing.T, settings func() *http.Server, test func(*site)) {
	t.Helper()
	someModes(t, settings, test, slices.Sorted(maps.Keys(modes))...)
}

func someModes(t *testing.T, settings func() *http.Server, test func(*site), names ...string) {
	t.Helper()
	someServers(t, settings, nil, test, names...)
}

// someServers is someModes for servers with fields beyond their settings, which apply sets.
func someServers(t *testing.T, settings func() *http.Server, apply func(*engine.Server, *http.Server),
	test func(*site), names ...string) {
	t.Helper()
	if len(names) == 0 {
		t.Fatal("no modes")
	}
	for _, mode := range names {
		t.Run(mode, func(t *testing.T) { inMode(t, mode, settings(), apply, test) })
	}
}

// everyClient runs a test with clients of HTTP/1.1 and of HTTP/2, over every kind of connection. On
// shards, all handlers run on the loop first: what blocks there must be moved off it.
func everyClient(t *testing.T, handler http.HandlerFunc, test func(*site)) {
	t.Helper()
	onLoop := func(s *engine.Server, _ *http.Server) { s.Dispatch = engine.OnLoop }
	someServers(t, handle(handler), onLoop, test, slices.Sorted(maps.Keys(modes))...)
	everyHTTP2Mode(t, handler, func(s *http2Site) { test(s.site) })
}

func inMode(t *testing.T, mode string, set *http.Server, apply func(*engine.Server, *http.Server), test func(*site)) {
	t.Helper()
	s := startSite(t, mode, set, func(set *http.Server) server {
		ours := engine.New(set)
		if apply != nil {
			apply(ours, set)
		}
		return ours
	})
	t.Cleanup(func() {
		s.client.CloseIdleConnections() // Shutdown waits for connections without a request
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		testkit.Check(t, s.server.Shutdown(ctx))
	})
	test(s)
}

func handle(h http.HandlerFunc) func() *http.Server {
	return func() *http.Server { return &http.Server{Handler: h} }
}

func (s *site) get(path string) string {
	s.Helper()
	resp := testkit.Value(s.client.Get(s.url + path))(s)
	defer resp.Body.Close()
	return string(testkit.Value(io.ReadAll(resp.Body))(s))
}

func TestLargeBodiesUseConstantMemory(t *testing.T) {
	testkit.Long(t, "it transfers much")
	content := make([]byte, 3<<20)
	unsized := func() io.Reader { return struct{ io.Reader }{bytes.NewReader(content)} }
	want := fmt.Sprintf("%x <nil>", sha256.Sum256(content))
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		_, err := io.Copy(sum, r.Body)
		w.Header().Set("X-Sum", fmt.Sprintf("%x %v", sum.Sum(nil), err))
		if r.ContentLength > 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		}
		io.Copy(w, unsized())
	}), func(s *site) {
		for _, body := range []io.Reader{bytes.NewReader(content), unsized()} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp := testkit.Value(s.client.Post(s.url, "a/b", body))(s)
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			runtime.ReadMemStats(&after)
			if got := resp.Header.Get("X-Sum"); n != int64(len(content)) || err != nil || got != want {
				s.Errorf("downloaded %d, %v; uploaded %s, want %s", n, err, got, want)
			}
			if s.mode == "tcp" || s.mode == "unix" {
				testkit.Between(s, after.TotalAlloc-before.TotalAlloc, 0, uint64(len(content))/4, "bytes allocated")
			}
		}
	})
}

func hijacked(t *testing.T, w http.ResponseWriter) net.Conn {
	c, _, err := http.NewResponseController(w).Hijack()
	testkit.Must(t, err)
	return c
}

func siteOf(t *testing.T, maker, mode string, set *http.Server) *site {
	t.Helper()
	return startSite(t, mode, set, makers[maker])
}

func startSite(t *testing.T, mode string, set *http.Server, newServer func(*http.Server) server) *site {
	t.Helper()
	l, dial := modes[mode](t)
	s := &site{T: t, mode: mode, url: "http://host", dial: dial, logged: new(testkit.Log)}
	s.start(set, newServer, l)
	transport := &http.Transport{DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }}
	s.client = &http.Client{Transport: transport, Timeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	return s
}

func (s *site) start(set *http.Server, newServer func(*http.Server) server, l net.Listener) {
	s.Helper()
	set.ErrorLog = log.New(s.logged, "", 0)
	server := newServer(set)
	s.server, _ = server.(*engine.Server)
	serve(s.T, server, l)
}

func (s *site) in(t *testing.T) *site {
	other := *s
	other.T = t
	return &other
}

type server interface {
	Serve(net.Listener) error
	Close() error
}

// makers are the two servers that must behave the same in every case below.
var makers = map[string]func(*http.Server) server{
	"net/http": func(s *http.Server) server { return s },
	"tare":     func(s *http.Server) server { return engine.New(s) },
}

// transcript sends the pieces to a server, each when the server has processed those before. It
// returns what came back in a comparable form, with what the server logged.
func transcript(t *testing.T, newServer func(*http.Server) server, settings *http.Server, pieces []string) string {
	var response, logged bytes.Buffer
	var closed bool
	settings.ErrorLog = log.New(&logged, "", 0)
	inBubble(t, newServer, settings, func(t *testing.T, _ server, c *testkit.MemConn) {
		collect := func() {
			synctest.Wait()
			data, eof := c.Received()
			response.Write(data)
			closed = closed || eof
		}
		for _, p := range pieces {
			if p == closeWrite {
				c.CloseWrite()
			} else if _, err := io.WriteString(c, p); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Fatal(err)
			}
			collect()
		}
		pass(time.Second) // of the bubble's time: servers linger
		collect()
	})
	return describe(response.Bytes(), closed, strings.Contains(strings.Join(pieces, ""), "HEAD ")) +
		describeLog(logged.String())
}

// closeWrite, as a piece, closes the client's sending side.
const closeWrite = "\x00close write"

// serve serves l until the test ends.
func serve(t testing.TB, s server, l net.Listener) {
	t.Helper()
	served := goServe(s, l)
	t.Cleanup(func() {
		s.Close()
		testkit.Is(t, <-served, http.ErrServerClosed, "Serve")
	})
}

func goServe(s server, l net.Listener) chan error {
	done := make(chan error, 1)
	if secure, ok := l.(secureListener); ok {
		if s, ok := s.(*engine.Server); ok {
			go func() { done <- s.ServeTLS(secure.Listener, secure.config) }()
			return done
		}
		l = tls.NewListener(secure.Listener, secure.config)
	}
	go func() { done <- s.Serve(l) }()
	return done
}

func describe(response []byte, closed, head bool) string {
	var s strings.Builder
	r := bufio.NewReader(bytes.NewReader(response))
	request := &http.Request{Method: http.MethodGet}
	if head {
		request.Method = http.MethodHead
	}
	for _, err := r.Peek(1); err == nil; _, err = r.Peek(1) {
		resp, err := http.ReadResponse(r, request)
		if err != nil {
			rest, _ := io.ReadAll(r)
			fmt.Fprintf(&s, "not a response (%v): %q\n", err, rest)
			break
		}
		body, err := io.ReadAll(resp.Body)
		if next, _ := r.Peek(5); head && resp.ContentLength > 0 && string(next) != "HTTP/" {
			body, err = io.ReadAll(io.LimitReader(r, resp.ContentLength)) // only another request was a HEAD
		}
		if refusal := fmt.Sprint(resp.Status); resp.Close && strings.HasPrefix(string(body), refusal) {
			body = []byte(refusal) // the text is the server's own
			resp.ContentLength = -1
			resp.Header.Del("Content-Length")
			resp.Header.Del("Date")
		}
		if strings.HasSuffix(resp.Header.Get("Date"), " GMT") {
			resp.Header.Set("Date", "now")
		}
		fmt.Fprintf(&s, "%s %s length=%d coding=%v close=%v\n", resp.Proto, resp.Status, resp.ContentLength,
			resp.TransferEncoding, resp.Close)
		for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
			fmt.Fprintf(&s, "  %s: %q\n", name, resp.Header[name])
		}
		fmt.Fprintf(&s, "  body %q %v trailer %v\n", shorten(body), err, resp.Trailer)
	}
	fmt.Fprintf(&s, "closed=%v\n", closed)
	return s.String()
}

func shorten(b []byte) string {
	if len(b) > 3000 {
		return fmt.Sprintf("%s...%d bytes", b[:200], len(b))
	}
	return string(b)
}

// describeLog removes stack traces and positions in source files from what was logged.
func describeLog(logged string) string {
	var s strings.Builder
	for line := range strings.Lines(logged) {
		if line, ok := strings.CutPrefix(line, "http: "); ok {
			line, _, _ = strings.Cut(line, " (")
			fmt.Fprintf(&s, "log %s\n", strings.TrimSpace(line))
		}
	}
	return s.String()
}

const roleEnv = "TARE_ROLE"

// roleArguments returns what play has passed to a test that is the role of another process. Without
// any it skips the test.
func roleArguments(t *testing.T) string {
	t.Helper()
	arguments := os.Getenv(roleEnv)
	if arguments == "" {
		t.Skip("is run by other tests")
	}
	return arguments
}

// play runs a test as another process until the calling test ends, and returns the process's output
// after its first line.
func play(t *testing.T, role, arguments string) (first string, more *bufio.Reader) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+role+"$")
	c.Env = append(os.Environ(), roleEnv+"="+arguments)
	in := testkit.Value(c.StdinPipe())(t)
	out := testkit.Value(c.StdoutPipe())(t)
	testkit.Start(t, c)
	t.Cleanup(func() { in.Close() })
	more = bufio.NewReader(out)
	first, err := more.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %q, %v", role, first, err)
	}
	return first, more
}
