package tare_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
)

// Clients use HTTP/2 over TLS, HTTP/1.1 if they support nothing else, and HTTP/2 without TLS where
// it is enabled. A handler receives the same requests from tare and from net/http.
func TestProtocolsAreServedAsByNetHTTP(t *testing.T) {
	for _, kind := range []string{plain, h1, h2, h2c} {
		for by, maker := range makers {
			t.Run(kind+"/"+by, func(t *testing.T) {
				nothingLeft(t)
				s := &http.Server{ErrorLog: log.New(io.Discard, "", 0)}
				if kind == h2c {
					s.Protocols = new(http.Protocols)
					s.Protocols.SetHTTP1(true)
					s.Protocols.SetUnencryptedHTTP2(true)
				}
				s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					_, pushes := w.(http.Pusher)
					w.Header().Set("Trailer", "X-After")
					fmt.Fprintln(w, r.Proto, r.TLS != nil, r.Context().Value(http.ServerContextKey) == s, pushes)
					http.NewResponseController(w).Flush()
					fmt.Fprintln(w, len(b), r.Trailer.Get("X-Sum"))
					w.Header().Set("X-After", "y")
				})
				site := start(t, kind, maker, s)
				want := map[string]string{
					plain: "HTTP/1.1 false true false\n100000 z\n", h1: "HTTP/1.1 true true false\n100000 z\n",
					h2: "HTTP/2.0 true true true\n100000 z\n", h2c: "HTTP/2.0 false true true\n100000 z\n",
				}[kind]
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						req, _ := http.NewRequest(http.MethodPost, site.url,
							io.MultiReader(strings.NewReader(strings.Repeat("x", 100000))))
						req.Trailer = http.Header{"X-Sum": {"z"}}
						resp, err := site.client.Do(req)
						if err != nil {
							t.Error(err)
							return
						}
						defer resp.Body.Close()
						b, err := io.ReadAll(resp.Body)
						if got := string(b); got != want || err != nil || resp.Trailer.Get("X-After") != "y" {
							t.Errorf("got %q, %v, trailer %v; want %q", got, err, resp.Trailer, want)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// A server without TLS that supports both protocols distinguishes them by the first bytes, in
// whatever pieces they arrive.
func TestPrefaceIsNotConsumed(t *testing.T) {
	for by, maker := range makers {
		t.Run(by, func(t *testing.T) {
			s := &http.Server{Handler: textHandler("x"), Protocols: new(http.Protocols),
				ErrorLog: log.New(io.Discard, "", 0)}
			s.Protocols.SetHTTP1(true)
			s.Protocols.SetUnencryptedHTTP2(true)
			site := start(t, plain, maker, s)
			if got := site.get("/"); got != "200 OK x" {
				t.Errorf("HTTP/1: %q", got)
			}
			if got := site.sendText("PRO / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got,
				"HTTP/1.1 200") {
				t.Errorf("a method that begins like the preface: %q", got)
			}
			if got := site.sendText("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"); strings.Contains(got, "HTTP/1.1 2") &&
				by == "tare" {
				t.Errorf("no preface after all: %q", got)
			}
			for _, size := range []int{1, 7, 23, 24, 25, 100} {
				c := site.dial()
				rest := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
				for rest != "" {
					n := min(size, len(rest))
					io.WriteString(c, rest[:n])
					rest = rest[n:]
					time.Sleep(time.Millisecond)
				}
				head := make([]byte, 9)
				if _, err := io.ReadFull(c, head); err != nil || head[3] != 4 {
					t.Errorf("in pieces of %d: %x, %v, want SETTINGS", size, head, err)
				}
			}
		})
	}
}

// The files of a multipart form are removed at the end of the request.
func TestFormFilesAreRemovedAfterHTTP2Request(t *testing.T) {
	name := make(chan string, 1)
	site := start(t, h2, makers["tare"], &http.Server{Handler: http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(0); err != nil {
				t.Error(err)
				name <- ""
				return
			}
			f, err := r.MultipartForm.File["f"][0].Open()
			if err != nil {
				t.Error(err)
				name <- ""
				return
			}
			defer f.Close()
			name <- f.(*os.File).Name()
		})})
	body := new(strings.Builder)
	form := multipart.NewWriter(body)
	part, _ := form.CreateFormFile("f", "f")
	io.WriteString(part, strings.Repeat("x", 11<<20)) // more than is kept in memory
	form.Close()
	resp, err := site.client.Post(site.url, form.FormDataContentType(), strings.NewReader(body.String()))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	file := <-name
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err = os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
	t.Errorf("%q is still there: %v", file, err)
}

// ways are the ways to end a server: through the Server or the wrapped http.Server.
var endings = map[string]func(server, *http.Server, context.Context) error{
	"ours":        func(s server, _ *http.Server, ctx context.Context) error { return s.Shutdown(ctx) },
	"the wrapped": func(_ server, inner *http.Server, ctx context.Context) error { return inner.Shutdown(ctx) },
}

// Shutdown of either server waits for requests in progress, over every protocol, and closes idle
// connections.
func TestShutdownWaitsForRequests(t *testing.T) {
	for way, shutdown := range endings {
		for _, kind := range []string{plain, h1, h2, h2c} {
			t.Run(way+"/"+kind, func(t *testing.T) {
				t.Parallel()
				entered, release := make(chan bool), make(chan bool)
				s := &http.Server{Protocols: new(http.Protocols),
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/wait" {
							close(entered)
							<-release
						}
						io.WriteString(w, "x")
					})}
				s.Protocols.SetHTTP1(true)
				s.Protocols.SetHTTP2(true)
				s.Protocols.SetUnencryptedHTTP2(kind == h2c)
				registered := make(chan bool, 2)
				s.RegisterOnShutdown(func() { registered <- true })
				site := start(t, kind, makers["tare"], s)
				site.get("/")
				got := make(chan string)
				go func() { got <- site.get("/wait") }()
				<-entered
				short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				if err := shutdown(site.server, s,
					short); err != context.DeadlineExceeded { //nolint:errorlint // unwrapped
					t.Errorf("while a handler runs: %v", err)
				}
				if err := <-site.served; !errors.Is(err, http.ErrServerClosed) {
					t.Errorf("Serve returned %v", err)
				}
				site.served <- nil
				time.AfterFunc(50*time.Millisecond, func() { close(release) })
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := shutdown(site.server, s, ctx); err != nil {
					t.Errorf("after it: %v", err)
				}
				select {
				case <-release:
				default:
					t.Error("Shutdown did not wait")
				}
				if got := <-got; got != "200 OK x" {
					t.Errorf("got %q", got)
				}
				<-registered
			})
		}
	}
}

// Shutdown closes idle connections, over HTTP/2, too.
func TestShutdownClosesIdleConnections(t *testing.T) {
	for way, shutdown := range endings {
		for _, kind := range []string{plain, h1, h2} {
			t.Run(way+"/"+kind, func(t *testing.T) {
				t.Parallel()
				site := start(t, kind, makers["tare"], &http.Server{Handler: textHandler("x")})
				site.get("/")
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := shutdown(site.server, site.inner, ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Close of either server ends requests in progress.
func TestCloseOfEitherServerEndsRequests(t *testing.T) {
	for way, end := range map[string]func(*site) error{
		"ours":        func(s *site) error { return s.server.Close() },
		"the wrapped": func(s *site) error { return s.inner.Close() },
	} {
		for _, kind := range []string{plain, h1, h2} {
			t.Run(way+"/"+kind, func(t *testing.T) {
				nothingLeft(t)
				entered := make(chan bool)
				site := start(t, kind, makers["tare"],
					&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						io.WriteString(w, "x")
						http.NewResponseController(w).Flush()
						close(entered)
						<-r.Context().Done()
					})})
				got := make(chan string)
				go func() { got <- site.get("/") }()
				<-entered
				if err := end(site); err != nil {
					t.Error(err)
				}
				if err := <-site.served; !errors.Is(err, http.ErrServerClosed) {
					t.Errorf("Serve returned %v", err)
				}
				site.served <- nil
				if got := <-got; got != "failed" {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}

// A server that was ended through either server, before or after it served, neither serves nor
// listens again.
func TestEndedServerDoesNotServe(t *testing.T) {
	taken := listen(t)
	defer taken.Close()
	certFile, keyFile := certificateFiles(t)
	for by, maker := range makers {
		for _, served := range []bool{false, true} {
			for end, how := range map[string]func(server, *http.Server){
				"shutdown": func(s server, _ *http.Server) { s.Shutdown(context.Background()) },
				"close":    func(s server, _ *http.Server) { s.Close() },
				"inner shutdown": func(_ server, inner *http.Server) {
					inner.Shutdown(context.Background())
				},
				"inner close": func(_ server, inner *http.Server) { inner.Close() },
			} {
				t.Run(fmt.Sprint(by, served, end), func(t *testing.T) {
					nothingLeft(t)
					inner := &http.Server{Addr: taken.Addr().String(), Handler: textHandler("x")}
					s := maker(inner)
					if served {
						start(t, plain, func(*http.Server) server { return s }, inner).get("/")
					}
					how(s, inner)
					l := listen(t)
					for what, err := range map[string]error{
						"Serve": s.Serve(l), "ServeTLS": s.ServeTLS(listen(t), certFile, keyFile),
						"ListenAndServe": s.ListenAndServe(), "ListenAndServeTLS": s.ListenAndServeTLS(certFile,
							keyFile),
					} {
						if err != http.ErrServerClosed { //nolint:errorlint // unwrapped
							t.Errorf("%s: %v", what, err)
						}
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

// SetKeepAlivesEnabled(false) ends HTTP/2 connections after the current request.
func TestDisabledKeepAlivesEndHTTP2Connections(t *testing.T) {
	site := start(t, h2, makers["tare"], &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.RemoteAddr)
		})})
	first := site.get("/")
	if again := site.get("/"); again != first {
		t.Errorf("two connections: %s, %s", first, again)
	}
	site.server.SetKeepAlivesEnabled(false)
	site.get("/")
	again := site.get("/")
	for end := time.Now().Add(patience); again == first && time.Now().Before(end); again = site.get("/") {
		time.Sleep(time.Millisecond) // until the client has received GOAWAY
	}
	if again == first || again == "failed" {
		t.Errorf("%s after %s", again, first)
	}
}

// Certificates and keys come from the same sources as in net/http, with the same errors if they are
// missing. The caller's TLSConfig is not changed.
func TestCertificatesAreFoundAsByNetHTTP(t *testing.T) {
	certFile, keyFile := certificateFiles(t)
	cert, _ := certificate()
	get := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
	for name, test := range map[string]struct {
		config            *tls.Config
		certFile, keyFile string
		ok                bool
	}{
		"none":         {config: nil},
		"empty":        {config: &tls.Config{}},
		"files":        {certFile: certFile, keyFile: keyFile, ok: true},
		"no such file": {config: &tls.Config{Certificates: []tls.Certificate{cert}}, certFile: "/nowhere"},
		"certificates": {config: &tls.Config{Certificates: []tls.Certificate{cert}}, ok: true},
		"a function":   {config: &tls.Config{GetCertificate: get}, ok: true},
		"for a client": {config: &tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return &tls.Config{GetCertificate: get}, nil
			}}, ok: true},
		"cipher suites": {config: &tls.Config{Certificates: []tls.Certificate{cert},
			CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}}},
	} {
		t.Run(name, func(t *testing.T) {
			said := make(map[string]string)
			for by, maker := range makers {
				inner := &http.Server{Handler: textHandler("x"), TLSConfig: test.config.Clone()}
				s := maker(inner)
				before := inner.TLSConfig
				l := listen(t)
				served := make(chan error, 1)
				go func() { served <- s.ServeTLS(l, test.certFile, test.keyFile) }()
				if test.ok {
					c, err := tls.Dial("tcp", l.Addr().String(),
						&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
					if err != nil {
						t.Fatalf("%s: %v", by, err)
					}
					said[by] = c.ConnectionState().NegotiatedProtocol
					c.Close()
					s.Close()
				}
				select {
				case err := <-served:
					if !test.ok {
						said[by] = err.Error()
					}
				case <-time.After(patience):
					t.Errorf("%s serves", by)
					s.Close()
				}
				l.Close()
				if by == "tare" && (inner.TLSConfig != before || before != nil && before.NextProtos != nil) {
					t.Errorf("TLSConfig was changed: %+v", inner.TLSConfig)
				}
			}
			if said["tare"] != said["net/http"] {
				t.Errorf("tare %q, net/http %q", said["tare"], said["net/http"])
			}
		})
	}
}

// ALPN offers what Protocols and TLSNextProto configure.
func TestALPNOffersConfiguredProtocols(t *testing.T) {
	only := func(set func(*http.Protocols, bool)) *http.Protocols {
		p := new(http.Protocols)
		set(p, true)
		return p
	}
	for name, settings := range map[string]func() *http.Server{
		"default":     func() *http.Server { return &http.Server{} },
		"HTTP/1 only": func() *http.Server { return &http.Server{Protocols: only((*http.Protocols).SetHTTP1)} },
		"HTTP/2 only": func() *http.Server { return &http.Server{Protocols: only((*http.Protocols).SetHTTP2)} },
		"no TLSNextProto": func() *http.Server {
			return &http.Server{TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
		},
		"another, too": func() *http.Server {
			return &http.Server{TLSConfig: &tls.Config{NextProtos: []string{"foo", "http/1.1"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := make(map[string]string)
			for by, maker := range makers {
				s := settings()
				s.Handler, s.ErrorLog = http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }), log.New(
					io.Discard, "", 0)
				site := start(t, h2, maker, s)
				for _, offered := range [][]string{{"h2"}, {"http/1.1"}, {"http/1.1", "h2"}, {"foo"}, {"bar"}, nil} {
					config := site.trust.Clone()
					config.NextProtos = offered
					c, err := tls.Dial("tcp", site.addr, config)
					if err != nil {
						said[by] += fmt.Sprint(offered, " refused\n")
						continue
					}
					proto := c.ConnectionState().NegotiatedProtocol
					said[by] += fmt.Sprint(offered, " ", proto)
					if proto != "h2" {
						c.SetDeadline(time.Now().Add(patience))
						io.WriteString(c, getClose)
						b, err := io.ReadAll(c)
						_, body, _ := strings.Cut(string(b), "\r\n\r\n")
						said[by] += fmt.Sprint(" ", body, " ", isTimeout(err))
					}
					said[by] += "\n"
					c.Close()
				}
			}
			if said["tare"] != said["net/http"] {
				t.Errorf("tare\n%s\nnet/http\n%s", said["tare"], said["net/http"])
			}
		})
	}
}

// A server in a synctest bubble ends within it, whichever server ends it.
func TestServerEndsWithinSynctestBubble(t *testing.T) {
	for way, shutdown := range endings {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var nw testkit.Network
				inner := &http.Server{Handler: textHandler("x")}
				s := tare.Wrap(inner)
				served := make(chan error, 1)
				go func() { served <- s.Serve(nw.Listen()) }()
				c, err := nw.Dial()
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(c, getClose)
				if b, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(b), "x") {
					t.Errorf("%q, %v", b, err)
				}
				if err := shutdown(s, inner, context.Background()); err != nil {
					t.Error(err)
				}
				if err := <-served; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// The package's functions serve until Accept fails.
func TestPackageFunctionsServeUntilAcceptFails(t *testing.T) {
	certFile, keyFile := certificateFiles(t)
	for name, serve := range map[string]func(net.Listener) error{
		"Serve":    func(l net.Listener) error { return tare.Serve(l, textHandler("x")) },
		"ServeTLS": func(l net.Listener) error { return tare.ServeTLS(l, textHandler("x"), certFile, keyFile) },
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			served := make(chan error, 1)
			go func() { served <- serve(l) }()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			url := map[string]string{"Serve": "http://", "ServeTLS": "https://"}[name] + l.Addr().String()
			resp, err := client.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			client.CloseIdleConnections()
			l.Close()
			if err := <-served; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
	if err := tare.ListenAndServeTLS("127.0.0.1:0", certFile, "/nowhere", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Connections counts connections of all protocols.
func TestConnectionsCountsAllProtocols(t *testing.T) {
	for _, kind := range []string{plain, h1, h2, h2c} {
		t.Run(kind, func(t *testing.T) {
			set := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
			if kind == h2c {
				set.Protocols = new(http.Protocols)
				set.Protocols.SetUnencryptedHTTP2(true)
			}
			s := start(t, kind, makers["tare"], set)
			count := s.server.(*tare.Server).Connections
			for range 2 {
				resp, err := s.client.Get(s.url)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			if accepted, open := count(); accepted != 1 || open != 1 {
				t.Errorf("%d and %d, want one connection", accepted, open)
			}
			s.client.CloseIdleConnections()
			waitFor(t, "the connection to be gone", func() bool {
				accepted, open := count()
				return accepted == 1 && open == 0
			})
		})
	}
}
