package tare_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
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
	cert, key := tlstest.SelfSign(t, x509.Certificate{})
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
	l := testkit.Listen(t)
	s := &site{T: t, kind: kind, inner: inner, server: maker(inner), addr: l.Addr().String(),
		served: make(chan error, 1)}
	config, trust := tlstest.Configs()
	s.trust = trust
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
		inner.TLSConfig.Certificates = config.Certificates
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
	goroutines, files := runtime.NumGoroutine(), testkit.OpenFiles()
	return func() {
		t.Helper()
		testkit.WaitFor(t, "all goroutines and descriptors to go", func() bool {
			return runtime.NumGoroutine() <= goroutines && testkit.OpenFiles() <= files
		})
	}
}

// ending is a way to end a server: through the Server or the wrapped http.Server.
type ending func(s server, inner *http.Server, ctx context.Context) error

var endings = map[string]ending{
	"shutdown":       func(s server, _ *http.Server, ctx context.Context) error { return s.Shutdown(ctx) },
	"inner shutdown": func(_ server, inner *http.Server, ctx context.Context) error { return inner.Shutdown(ctx) },
	"close":          func(s server, _ *http.Server, _ context.Context) error { return s.Close() },
	"inner close":    func(_ server, inner *http.Server, _ context.Context) error { return inner.Close() },
}

// Shutdown of either server waits for requests in progress, over every protocol, and closes idle
// connections. Close of either ends them.
func TestEndingsOfEitherServerReachRequests(t *testing.T) {
	for way, end := range endings {
		waits := strings.HasSuffix(way, "shutdown")
		for _, kind := range []string{plain, h1, h2, h2c} {
			t.Run(way+"/"+kind, func(t *testing.T) {
				t.Cleanup(leftovers(t))
				entered, release := make(chan bool), make(chan bool)
				s := &http.Server{Protocols: new(http.Protocols),
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						io.WriteString(w, "x")
						if r.URL.Path == "/wait" {
							http.NewResponseController(w).Flush()
							close(entered)
							select {
							case <-release:
							case <-r.Context().Done():
							}
						}
					})}
				s.Protocols.SetHTTP1(kind != h2)
				s.Protocols.SetHTTP2(true)
				s.Protocols.SetUnencryptedHTTP2(kind == h2c)
				registered := make(chan bool, 2)
				s.RegisterOnShutdown(func() { registered <- true })
				site := start(t, kind, makers["tare"], s)
				site.get("/")
				got, want := make(chan string), "failed"
				go func() { got <- site.get("/wait") }()
				<-entered
				short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				err := end(site.server, s, short)
				testkit.Is(t, <-site.served, http.ErrServerClosed, "Serve")
				site.served <- nil
				if waits {
					want = "200 OK x"
					testkit.Equal(t, err, context.DeadlineExceeded, "while a handler runs")
					time.AfterFunc(50*time.Millisecond, func() { close(release) })
					err = end(site.server, s, t.Context())
					select {
					case <-release:
					default:
						t.Error("Shutdown did not wait")
					}
					<-registered
				}
				testkit.Check(t, err)
				testkit.Equal(t, <-got, want)
			})
		}
	}
}

func TestWrappedServerEndsWhileServeBegins(t *testing.T) {
	for _, name := range []string{"inner shutdown", "inner close"} {
		t.Cleanup(leftovers(t))
		for range 100 {
			inner, served := &http.Server{Protocols: protocols((*http.Protocols).SetHTTP2)}, make(chan error)
			s, l := tare.Wrap(inner), testkit.Listen(t)
			go func() { served <- s.Serve(l) }()
			testkit.Must(t, endings[name](nil, inner, t.Context()))
			testkit.Is(t, <-served, http.ErrServerClosed, name)
		}
	}
}

// slowListener is a listener whose Accept returns a second after Close, which fails.
type slowListener struct{ closed chan bool }

func (l slowListener) Accept() (net.Conn, error) {
	<-l.closed
	time.Sleep(time.Second)
	return nil, net.ErrClosed
}

func (l slowListener) Close() error { close(l.closed); return io.ErrShortWrite }
func (slowListener) Addr() net.Addr { return &net.TCPAddr{} }

// Shutdown and Close of either server return when Accept is not being called any more. They return
// the error of Close, but the wrapped server does not know it.
func TestEndingsWaitForAccept(t *testing.T) {
	for by, maker := range makers {
		for way, end := range endings {
			t.Run(by+"/"+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inner := new(http.Server)
					s, served := maker(inner), make(chan error, 1)
					go func() { served <- s.Serve(slowListener{make(chan bool)}) }()
					synctest.Wait()
					began := time.Now()
					err := end(s, inner, t.Context())
					isKnown := by == "net/http" || !strings.HasPrefix(way, "inner")
					testkit.Equal(t, errors.Is(err, io.ErrShortWrite), isKnown, "the error of Close", err)
					testkit.Equal(t, time.Since(began) >= time.Second, true, "it waits")
					testkit.Equal(t, <-served == http.ErrServerClosed, true, "the error of Serve") //nolint:errorlint // unwrapped
				})
			})
		}
	}
}

// A server that was ended through either server, before or after it served, neither serves nor
// listens again.
func TestEndedServerDoesNotServe(t *testing.T) {
	taken := testkit.Listen(t)
	defer taken.Close()
	certFile, keyFile := certificateFiles(t)
	for by, maker := range makers {
		for _, served := range []bool{false, true} {
			for way, end := range endings {
				t.Run(fmt.Sprint(by, served, way), func(t *testing.T) {
					t.Cleanup(leftovers(t))
					inner := &http.Server{Addr: taken.Addr().String(), Handler: textHandler("x")}
					s := maker(inner)
					if served {
						start(t, plain, func(*http.Server) server { return s }, inner).get("/")
					}
					testkit.Must(t, end(s, inner, t.Context()))
					l := testkit.Listen(t)
					for what, err := range map[string]error{
						"Serve": s.Serve(l), "ServeTLS": s.ServeTLS(testkit.Listen(t), certFile, keyFile),
						"ListenAndServe": s.ListenAndServe(), "ListenAndServeTLS": s.ListenAndServeTLS(certFile,
							keyFile),
					} {
						testkit.Equal(t, err == http.ErrServerClosed, true, what, err) //nolint:errorlint // unwrapped
					}
					if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
						c.Close()
						t.Error("Serve did not close the listener")
					}
				})
			}
		}
	}
}

func TestPackageFunctionsServeUntilAcceptFails(t *testing.T) {
	certFile, keyFile := certificateFiles(t)
	for name, serve := range map[string]func(net.Listener) error{
		"http": func(l net.Listener) error { return tare.Serve(l, textHandler("x")) },
		"tls":  func(l net.Listener) error { return tare.ServeTLS(l, textHandler("x"), certFile, keyFile) },
	} {
		t.Run(name, func(t *testing.T) {
			l, served, client := testkit.Listen(t), make(chan error, 1), keepingClient(false)
			go func() { served <- serve(l) }()
			testkit.Must(t, getFrom(client, name, l))
			client.CloseIdleConnections()
			l.Close()
			testkit.Is(t, <-served, net.ErrClosed)
		})
	}
	testkit.Is(t, tare.ListenAndServeTLS("127.0.0.1:0", certFile, "/nowhere", nil), os.ErrNotExist)
}

var unusedKinds = map[string]func(t *testing.T, s *tare.Server, l net.Listener) error{
	"shards":    func(_ *testing.T, s *tare.Server, l net.Listener) error { return s.Serve(l) },
	"goroutine": func(_ *testing.T, s *tare.Server, l net.Listener) error { return s.Serve(struct{ net.Listener }{l}) },
	"tls": func(t *testing.T, s *tare.Server, l net.Listener) error {
		return s.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{tlstest.ServerCertificate()},
			NextProtos: []string{"h2", "http/1.1"}}))
	},
}

// A server that only closes its listener, without Shutdown, leaves nothing behind, as in net/http.
// Open connections are served until they end. The server can serve again, until it or the wrapped
// server ends: this ends connections that are open after the listener was closed, too.
func TestServerWithClosedListenerLeavesNothing(t *testing.T) {
	for kind, serve := range unusedKinds {
		for way, end := range endings {
			for _, isUsed := range []bool{true, false} { // when it ends
				t.Run(fmt.Sprint(kind, "/", way, "/", isUsed), func(t *testing.T) {
					mustEnd, inner := leftovers(t), &http.Server{Handler: textHandler("x"), TLSConfig: new(tls.Config)}
					s, client, l := tare.Wrap(inner), keepingClient(false), net.Listener(nil)
					serveOnce := func(isUsed bool) {
						l = testkit.Listen(t)
						served := make(chan error, 1)
						go func() { served <- serve(t, s, l) }()
						if isUsed {
							testkit.Must(t, getFrom(client, kind, l))
						}
						testkit.Must(t, l.Close())
						testkit.Is(t, <-served, net.ErrClosed, "Serve")
					}
					for round := range 4 {
						client = keepingClient(round%2 == 0)
						if serveOnce(round > 0); round > 0 {
							testkit.Must(t, getFrom(client, kind, l))
						}
						client.CloseIdleConnections()
					}
					mustEnd()
					serveOnce(isUsed)
					testkit.Must(t, end(s, inner, t.Context()))
					err := getFrom(client, kind, l)
					testkit.Equal(t, err == nil || os.IsTimeout(err), false, "a connection is left open", err)
					testkit.Is(t, serve(t, s, testkit.Listen(t)), http.ErrServerClosed, "Serve in the end")
				})
			}
		}
	}
}

// keepingClient returns a client that keeps connections, which may use HTTP/2 over TLS.
func keepingClient(http2 bool) *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}}
}

func getFrom(c *http.Client, kind string, l net.Listener) error {
	idle, scheme := make(chan error, 1), map[bool]string{true: "https://", false: "http://"}[kind == "tls"]
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		PutIdleConn: func(err error) { idle <- err }})
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, scheme+l.Addr().String(), http.NoBody)
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.ProtoMajor == 1 {
		err = <-idle // else the next request may dial
	}
	return err
}
