package http_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// server is what tests call of an http.Server, apart from fields and hooks.
type server interface {
	ListenAndServe() error
	ListenAndServeTLS(certFile, keyFile string) error
	Serve(l net.Listener) error
	ServeTLS(l net.Listener, certFile, keyFile string) error
	Shutdown(ctx context.Context) error
	Close() error
}

// goroutineServer hides from tare that its listeners are those of package net.
type goroutineServer struct{ *tare.Server }

func (s goroutineServer) Serve(l net.Listener) error { return s.Server.Serve(hiddenListener{l}) }

func (s goroutineServer) ServeTLS(l net.Listener, certFile, keyFile string) error {
	return s.Server.ServeTLS(hiddenListener{l}, certFile, keyFile)
}

type hiddenListener struct{ net.Listener }

// servers are the servers that serve what an http.Server describes.
var servers struct {
	sync.Mutex
	all map[*http.Server]server
}

// served returns the server that is tested with the settings s. TARE_NETHTTP selects it. Calls of
// methods of an http.Server are rewritten to call the same methods of this server.
func served(s *http.Server) server {
	servers.Lock()
	defer servers.Unlock()
	if servers.all == nil {
		servers.all = make(map[*http.Server]server)
	}
	if servers.all[s] == nil {
		servers.all[s] = newServer(s)
	}
	return servers.all[s]
}

func newServer(s *http.Server) server {
	switch kind := os.Getenv("TARE_NETHTTP"); kind {
	case "net/http":
		return s
	case "goroutines":
		return goroutineServer{tare.Wrap(s)}
	case "shards":
		return tare.Wrap(s)
	default:
		panic("unknown server " + kind)
	}
}

func serve(l net.Listener, h http.Handler) error { return served(&http.Server{Handler: h}).Serve(l) }

func serveTLS(l net.Listener, h http.Handler, certFile, keyFile string) error {
	return served(&http.Server{Handler: h}).ServeTLS(l, certFile, keyFile)
}

// testServer is an httptest.Server that sets no ConnState hook and does not wrap its listener, so
// that shards can serve it.
type testServer struct {
	URL         string
	Listener    net.Listener
	EnableHTTP2 bool
	TLS         *tls.Config
	Config      *http.Server

	client *http.Client
	done   chan struct{} // closed when Serve has returned; nil before the start
}

func newUnstartedTestServer(h http.Handler) *testServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return &testServer{Listener: l, Config: &http.Server{Handler: h}}
}

func newTestServer(h http.Handler) *testServer {
	s := newUnstartedTestServer(h)
	s.Start()
	return s
}

func newTLSTestServer(h http.Handler) *testServer {
	s := newUnstartedTestServer(h)
	s.StartTLS()
	return s
}

// Start serves without TLS.
func (s *testServer) Start() {
	s.start("http", new(http.Transport), func() error { return served(s.Config).Serve(s.Listener) })
}

// StartTLS serves with the certificate of package httptest, unless TLS has another.
func (s *testServer) StartTLS() {
	if s.TLS = s.TLS.Clone(); s.TLS == nil {
		s.TLS = new(tls.Config)
	}
	if s.TLS.NextProtos == nil && s.EnableHTTP2 {
		s.TLS.NextProtos = []string{"h2"}
	}
	if len(s.TLS.Certificates) == 0 {
		s.TLS.Certificates = []tls.Certificate{tlstest.ServerCertificate()}
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(s.TLS.Certificates[0].Leaf)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: s.EnableHTTP2}
	s.Config.TLSConfig = s.TLS
	s.start("https", tr, func() error { return served(s.Config).ServeTLS(s.Listener, "", "") })
}

func (s *testServer) start(scheme string, tr *http.Transport, serve func() error) {
	if s.client == nil {
		s.client = new(http.Client)
	}
	s.client.Transport = tr
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if tr.Dial != nil {
			return tr.Dial(network, addr)
		}
		if host, _, _ := net.SplitHostPort(addr); host == "example.com" {
			addr = s.Listener.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	s.URL = scheme + "://" + s.Listener.Addr().String()
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		_ = serve()
	}()
}

// Client returns a client that trusts the certificate and reaches the server as example.com, too.
func (s *testServer) Client() *http.Client { return s.client }

// Certificate returns the server's certificate, or nil.
func (s *testServer) Certificate() *x509.Certificate {
	if s.TLS == nil {
		return nil
	}
	return s.TLS.Certificates[0].Leaf
}

// Close waits for requests, at most for some seconds, and ends all connections.
func (s *testServer) Close() {
	_ = s.Listener.Close()
	if s.done == nil {
		return
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	s.client.CloseIdleConnections()
	ours := served(s.Config)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = ours.Shutdown(ctx)
	_ = ours.Close()
	<-s.done
	servers.Lock()
	defer servers.Unlock()
	delete(servers.all, s.Config)
}

// localhostCert and localhostKey are the certificate of package httptest in PEM.
var localhostCert, localhostKey = encodeCertificate(tlstest.ServerCertificate())

func encodeCertificate(c tls.Certificate) (cert, key []byte) {
	b, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})
}

// This file replaces those parts of net/http's tests that use net/http's internals, and its
// main_test.go.

var quietLog = log.New(io.Discard, "", 0)

func TestMain(m *testing.M) { os.Exit(m.Run()) }

// run is runModes, but tests that run over HTTP/1.1 and HTTP/2 also run over HTTP/1.1 with TLS, and
// over HTTP/2 without it. If TARE_MODE is set, they run in this mode only.
func run[T TBRun[T]](t T, f func(t T, mode testMode), opts ...any) {
	t.Helper()
	other := map[testMode]testMode{http1Mode: https1Mode, http2Mode: http2UnencryptedMode}
	all := []any{testAddMode{https1Mode, http2UnencryptedMode}, testSkipMode{"h3"}}
	for _, o := range opts {
		if modes, ok := o.([]testMode); ok && slices.Equal(modes, []testMode{http1Mode, http2Mode}) {
			continue // the default before HTTP/3
		}
		if skipped, ok := o.(testSkipMode); ok {
			for _, mode := range skipped {
				skipped = append(slices.Clip(skipped), other[mode])
			}
			o = skipped
		}
		all = append(all, o)
	}
	if only := testMode(os.Getenv("TARE_MODE")); only != "" {
		modes := []testMode{http1Mode, https1Mode, http2Mode, http2UnencryptedMode}
		all = append(all, testSkipMode(slices.DeleteFunc(modes, func(m testMode) bool { return m == only })))
	}
	runModes(t, f, all...)
}

// CondSkipHTTP2 skips nothing: HTTP/2 is enabled.
func CondSkipHTTP2(testing.TB) {}

// SetRSTAvoidanceDelay changes nothing: tests try again with longer timeouts.
func SetRSTAvoidanceDelay(*testing.T, time.Duration) {}

// ExportHttp2ConfigureServer makes a server offer HTTP/2.
func ExportHttp2ConfigureServer(s *http.Server, _ any) error {
	if s.TLSConfig == nil {
		s.TLSConfig = new(tls.Config)
	}
	s.TLSConfig.NextProtos = append(s.TLSConfig.NextProtos, "h2")
	return nil
}

// ExportHttp2ConfigureTransport makes a client offer HTTP/2.
func ExportHttp2ConfigureTransport(t *http.Transport) error {
	t.ForceAttemptHTTP2 = true
	return nil
}

func setParallel(t *testing.T) {
	if testing.Short() {
		t.Parallel()
	}
}

func afterTest(testing.TB) { http.DefaultTransport.(*http.Transport).CloseIdleConnections() }

// waitCondition calls fn with the time since its first call until it returns true.
func waitCondition(t testing.TB, delay time.Duration, fn func(time.Duration) bool) {
	t.Helper()
	for begun := time.Now(); !fn(time.Since(begun)); delay += delay / 2 {
		time.Sleep(delay)
	}
}
