package tare_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// server is the common part of tare's Server and net/http's.
type server interface {
	Serve(net.Listener) error
	ServeTLS(l net.Listener, certFile, keyFile string) error
	ListenAndServe() error
	ListenAndServeTLS(certFile, keyFile string) error
	Shutdown(context.Context) error
	Close() error
	RegisterOnShutdown(func())
	SetKeepAlivesEnabled(bool)
}

// makers make a server from settings: tare's, and the one to compare it with.
var makers = map[string]func(*http.Server) server{
	"net/http": func(s *http.Server) server { return s },
	"tare":     func(s *http.Server) server { return tare.Wrap(s) },
}

func certificateFiles(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	cert, key := testkit.SelfSign(t, x509.Certificate{})
	certFile, keyFile = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	testkit.WriteFile(t, certFile, string(cert))
	testkit.WriteFile(t, keyFile, string(key))
	return certFile, keyFile
}

// Kinds of site: the protocol and transport of the server and its client.
const (
	plain = "http"
	h1    = "http/1.1 over tls"
	h2    = "h2 over tls"
	h2c   = "h2 without tls"
)

type site struct {
	*testing.T
	kind   string
	server server
	inner  *http.Server
	addr   string
	served chan error
	client *http.Client
	trust  *tls.Config // the client's
	url    string
}

const patience = 30 * time.Second

// start serves inner until the test ends.
func start(t *testing.T, kind string, maker func(*http.Server) server, inner *http.Server) *site {
	t.Helper()
	l := listen(t)
	s := &site{T: t, kind: kind, inner: inner, server: maker(inner), addr: l.Addr().String(),
		served: make(chan error, 1)}
	cert, pool := testkit.ServerCertificate(), x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	s.trust = &tls.Config{RootCAs: pool, ServerName: "example.com"}
	transport := &http.Transport{TLSClientConfig: s.trust.Clone(), Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(kind == plain || kind == h1)
	transport.Protocols.SetHTTP2(kind == h2)
	transport.Protocols.SetUnencryptedHTTP2(kind == h2c)
	s.client = &http.Client{Transport: transport, Timeout: patience}
	if kind == plain || kind == h2c {
		s.url = "http://" + s.addr
		go func() { s.served <- s.server.Serve(l) }()
	} else {
		if inner.TLSConfig == nil {
			inner.TLSConfig = new(tls.Config)
		}
		inner.TLSConfig.Certificates = []tls.Certificate{cert}
		s.url = "https://" + s.addr
		go func() { s.served <- s.server.ServeTLS(l, "", "") }()
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.server.Close()
		<-s.served
	})
	return s
}

// dial connects to the site, with TLS and with ALPN for HTTP/2 if the site uses them.
func (s *site) dial() net.Conn {
	s.Helper()
	c := testkit.Value(net.Dial("tcp", s.addr))(s)
	if s.kind == h1 || s.kind == h2 {
		config := s.trust.Clone()
		if s.kind == h2 {
			config.NextProtos = []string{"h2"}
		}
		c = tls.Client(c, config)
	}
	s.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// get returns the response's body, or "failed" and the reason if that is comparable.
func (s *site) get(path string) string {
	resp, err := s.client.Get(s.url + path)
	if err != nil {
		return "failed"
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "failed"
	}
	return resp.Status + " " + string(b)
}

// sendText sends text on a connection of its own, and returns all bytes that the server sends.
func (s *site) sendText(text string) string {
	c := s.dial()
	io.WriteString(c, text)
	b, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "the server does not close"
	}
	return string(b)
}

// leftovers returns a function that waits until there are no more goroutines and descriptors than
// now.
func leftovers(t *testing.T) (mustEnd func()) {
	count := func() (goroutines, descriptors int) {
		all := testkit.Value(filepath.Glob("/proc/self/fd/*"))(t)
		return runtime.NumGoroutine(), len(all)
	}
	goroutines, descriptors := count()
	return func() {
		t.Helper()
		testkit.WaitFor(t, "all goroutines and descriptors to go", func() bool {
			g, d := count()
			return g <= goroutines && d <= descriptors
		})
	}
}
