package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
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
	config := &tls.Config{Certificates: testCertificates()}
	return l, config, func() (net.Conn, error) {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		return tls.Client(c, &tls.Config{InsecureSkipVerify: true}), nil
	}
}

// testCertificates returns the certificates of package httptest.
func testCertificates() []tls.Certificate {
	borrowed := httptest.NewUnstartedServer(nil)
	borrowed.StartTLS()
	defer borrowed.Close()
	return borrowed.TLS.Certificates
}

func listen(t *testing.T, network, address string) (net.Listener, func() (net.Conn, error)) {
	l, err := net.Listen(network, address)
	testkit.Must(t, err)
	return l, func() (net.Conn, error) { return net.Dial(network, l.Addr().String()) }
}

// site is a running server and a client that is connected to it.
type site struct {
	*testing.T
	mode   string
	server *engine.Server
	dial   func() (net.Conn, error)
	client *http.Client
	served chan error
	logged *testkit.Log
}

func everyMode(t *testing.T, settings func() *http.Server, test func(*site)) {
	t.Helper()
	someModes(t, settings, test, slices.Sorted(maps.Keys(modes))...)
}

func someModes(t *testing.T, settings func() *http.Server, test func(*site), names ...string) {
	t.Helper()
	if len(names) == 0 {
		t.Fatal("no modes")
	}
	for _, mode := range names {
		t.Run(mode, func(t *testing.T) { inMode(t, mode, settings(), nil, test) })
	}
}

// someServers is someModes for servers with fields beyond their settings.
func someServers(t *testing.T, set *http.Server, apply func(*engine.Server, *http.Server), test func(*site),
	names ...string) {
	t.Helper()
	for _, mode := range names {
		t.Run(mode, func(t *testing.T) {
			inMode(t, mode, &http.Server{Handler: set.Handler}, apply, test)
		})
	}
}

func inMode(t *testing.T, mode string, set *http.Server, apply func(*engine.Server, *http.Server), test func(*site)) {
	l, dial := modes[mode](t)
	s := &site{T: t, mode: mode, dial: dial, logged: new(testkit.Log)}
	set.ErrorLog = log.New(s.logged, "", 0)
	s.server = engine.New(set)
	if apply != nil {
		apply(s.server, set)
	}
	s.served = goServe(s.server, l)
	transport := &http.Transport{DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }}
	s.client = &http.Client{Transport: transport, Timeout: time.Minute}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	})
	test(s)
}

func handle(h http.HandlerFunc) func() *http.Server {
	return func() *http.Server { return &http.Server{Handler: h} }
}

// get returns a response's body.
func (s *site) get(path string) string {
	s.Helper()
	resp, err := s.client.Get("http://host" + path)
	testkit.Must(s, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	testkit.Must(s, err)
	return string(b)
}

// An upload streams to the handler, and a download from it, in constant memory.
func TestLargeBodiesUseConstantMemory(t *testing.T) {
	testkit.Long(t, "it transfers much")
	const size = 20 << 20
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		w.Header().Set("X-Sum", fmt.Sprintf("%x %d %v", sum.Sum(nil), n, err))
		if r.URL.Query().Has("length") {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		io.Copy(w, io.LimitReader(zeros{}, size))
	}), func(s *site) {
		sum := sha256.New()
		io.Copy(sum, io.LimitReader(zeros{}, size))
		want := fmt.Sprintf("%x %d <nil>", sum.Sum(nil), size)
		for _, how := range []string{"?length", ""} {
			var body io.Reader = bytes.NewReader(make([]byte, size)) // with a length
			if how == "" {
				body = io.LimitReader(zeros{}, size) // chunked
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp, err := s.client.Post("http://host/"+how, "a/b", body)
			testkit.Must(s, err)
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			runtime.ReadMemStats(&after)
			if got := resp.Header.Get("X-Sum"); n != size || err != nil || got != want {
				s.Errorf("downloaded %d, %v; uploaded %s, want %s", n, err, got, want)
			}
			if grown := int64(after.TotalAlloc - before.TotalAlloc); (s.mode == "tcp" || s.mode == "unix") &&
				grown > size/4 {
				s.Errorf("allocated %d bytes to move %d", grown, 2*size)
			}
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestHandlersSeeConnectionType(t *testing.T) {
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%T %v", c, r.TLS != nil)
		rw.Flush()
	}), func(s *site) {
		want := map[string]string{
			"tcp": "*net.TCPConn false", "net.Conn": "*net.TCPConn false", "unix": "*net.UnixConn false",
			"tls": "*tls.Conn true", "ServeTLS": "*tls.Conn true", "memory": "*testkit.MemConn false",
		}[s.mode]
		if got := s.get("/"); got != want {
			s.Errorf("got %s, want %s", got, want)
		}
	})
}

// beside runs a test on net/http's server and on this engine, over every kind of connection.
func beside(t *testing.T, settings func() *http.Server, test func(*site)) {
	t.Helper()
	for _, maker := range slices.Sorted(maps.Keys(makers)) {
		for _, mode := range slices.Sorted(maps.Keys(modes)) {
			t.Run(maker+"/"+mode, func(t *testing.T) { test(siteOf(t, maker, mode, settings())) })
		}
	}
}

// siteOf returns a site with the server of a maker.
func siteOf(t *testing.T, maker, mode string, set *http.Server) *site {
	l, dial := modes[mode](t)
	s := &site{T: t, mode: mode, dial: dial, logged: new(testkit.Log)}
	if set.ErrorLog == nil {
		set.ErrorLog = log.New(s.logged, "", 0)
	}
	server := makers[maker](set)
	s.server, _ = server.(*engine.Server)
	served := goServe(server, l)
	transport := &http.Transport{DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial() }}
	s.client = &http.Client{Transport: transport, Timeout: time.Minute}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		<-served
	})
	return s
}

// ours reports whether the server of a site made by beside is this engine.
func (s *site) ours() bool { return !strings.Contains(s.Name(), "/net/http/") }
