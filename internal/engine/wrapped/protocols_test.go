package tare_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

func compare(t *testing.T, result func(maker func(*http.Server) server) string) {
	t.Helper()
	testkit.Equal(t, result(makers["tare"]), result(makers["net/http"]), "as net/http")
}

// Certificates and keys come from the same sources as in net/http, with the same errors if they are
// missing. The caller's TLSConfig is not changed.
func TestCertificatesAreFoundAsByNetHTTP(t *testing.T) {
	certFile, keyFile := certificateFiles(t)
	cert := tlstest.ServerCertificate()
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
			compare(t, func(maker func(*http.Server) server) (result string) {
				inner := &http.Server{Handler: textHandler("x"), TLSConfig: test.config.Clone()}
				s := maker(inner)
				l := testkit.Listen(t)
				served := make(chan error, 1)
				go func() { served <- s.ServeTLS(l, test.certFile, test.keyFile) }()
				if test.ok {
					c := testkit.Value(tls.Dial("tcp", l.Addr().String(),
						&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}))(t)
					result = c.ConnectionState().NegotiatedProtocol
					c.Close()
					s.Close()
				}
				if err := <-served; !test.ok { // else the test hangs
					result = err.Error()
				}
				l.Close()
				if inner.TLSConfig != nil {
					result += fmt.Sprint(inner.TLSConfig.NextProtos, len(inner.TLSConfig.Certificates))
				}
				return result
			})
		})
	}
}

func protocols(set ...func(*http.Protocols, bool)) *http.Protocols {
	p := new(http.Protocols)
	for _, f := range set {
		f(p, true)
	}
	return p
}

// After a Serve, TLSNextProto has the entries that net/http sets. Programs look there for HTTP/2. ALPN
// offers what Protocols and TLSNextProto configure.
func TestProtocolsOfTLSAreThoseOfNetHTTP(t *testing.T) {
	certFile, keyFile := certificateFiles(t)
	type handlers = map[string]func(*http.Server, *tls.Conn, http.Handler)
	http1, http2 := (*http.Protocols).SetHTTP1, (*http.Protocols).SetHTTP2
	h2c := (*http.Protocols).SetUnencryptedHTTP2
	for name, set := range map[string]func(*http.Server){
		"default":      func(*http.Server) {},
		"config":       func(s *http.Server) { s.TLSConfig = new(tls.Config) },
		"config of h2": func(s *http.Server) { s.TLSConfig = &tls.Config{NextProtos: []string{"h2"}} },
		"config of another": func(s *http.Server) {
			s.TLSConfig = &tls.Config{NextProtos: []string{"foo", "http/1.1"}}
		},
		"no handlers":    func(s *http.Server) { s.TLSNextProto = handlers{} },
		"own":            func(s *http.Server) { s.TLSNextProto = handlers{"foo": nil} },
		"HTTP/1":         func(s *http.Server) { s.Protocols = protocols(http1) },
		"HTTP/2":         func(s *http.Server) { s.Protocols = protocols(http2) },
		"HTTP/1 and h2c": func(s *http.Server) { s.Protocols = protocols(http1, h2c) },
		"both, no handlers": func(s *http.Server) {
			s.Protocols, s.TLSNextProto = protocols(http1, http2), handlers{}
		},
		"http2server=0": func(*http.Server) {},
	} {
		for how, serve := range map[string]func(server, net.Listener) error{
			"Serve":              server.Serve,
			"ServeTLS":           func(s server, l net.Listener) error { return s.ServeTLS(l, certFile, keyFile) },
			"ServeTLS, no files": func(s server, l net.Listener) error { return s.ServeTLS(l, "", "") },
			"ListenAndServe":     func(s server, _ net.Listener) error { return s.ListenAndServe() },
			"ListenAndServeTLS": func(s server, _ net.Listener) error {
				return s.ListenAndServeTLS(certFile, keyFile)
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				if strings.HasPrefix(name, "http2server") {
					t.Setenv("GODEBUG", name)
				}
				compare(t, func(maker func(*http.Server) server) (result string) {
					l := testkit.Listen(t)
					defer l.Close()
					serving, served := make(chan bool, 2), make(chan error, 1)
					inner := &http.Server{Addr: "127.0.0.1:0", ErrorLog: log.New(io.Discard, "", 0),
						BaseContext: func(net.Listener) context.Context { serving <- true; return t.Context() },
						Handler: http.HandlerFunc(
							func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })}
					set(inner)
					s := maker(inner)
					go func() { served <- serve(s, l) }()
					select {
					case <-serving:
						if how == "ServeTLS" {
							result = alpnOf(t, l)
						}
						s.Close()
						<-served
					case <-served:
						s.Close()
					}
					return result + fmt.Sprint(slices.Sorted(maps.Keys(inner.TLSNextProto)))
				})
			})
		}
	}
}

// alpnOf returns what a server selects of several lists of protocols, and by what it responds then to
// HTTP/1.
func alpnOf(t *testing.T, l net.Listener) (result string) {
	for _, offered := range [][]string{{"h2"}, {"http/1.1"}, {"http/1.1", "h2"}, {"foo"}, {"bar"}, nil} {
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: offered})
		if err != nil {
			result += fmt.Sprint(offered, " failed\n")
			continue
		}
		defer c.Close()
		proto := c.ConnectionState().NegotiatedProtocol
		result += fmt.Sprint(offered, " ", proto)
		if proto != "h2" {
			c.SetDeadline(time.Now().Add(patience))
			testkit.Send(t, c, getClose)
			b, err := io.ReadAll(c)
			_, body, _ := strings.Cut(string(b), "\r\n\r\n")
			result += fmt.Sprint(" ", body, " ", errors.Is(err, os.ErrDeadlineExceeded))
		}
		result += "\n"
	}
	return result
}

// A server with an empty set of protocols serves HTTP/1, as with net/http since Go 1.27.
func TestEmptyProtocolsAreThoseOfNetHTTP(t *testing.T) {
	for by, maker := range makers {
		if by == "net/http" && testkit.NetHTTPPrecedes("go1.27") {
			continue
		}
		for _, kind := range []string{plain, h1} {
			s := &http.Server{Handler: textHandler("x"), Protocols: protocols()}
			testkit.Equal(t, start(t, kind, maker, s).get("/"), "200 OK x", by, kind)
		}
	}
}

// A server without TLS that supports both protocols distinguishes them by the first bytes, in
// whatever pieces they arrive.
func TestPrefaceIsNotConsumed(t *testing.T) {
	for by, maker := range makers {
		t.Run(by, func(t *testing.T) {
			s := &http.Server{Handler: textHandler("x"), ErrorLog: log.New(io.Discard, "", 0),
				Protocols: protocols((*http.Protocols).SetHTTP1, (*http.Protocols).SetUnencryptedHTTP2)}
			site := start(t, plain, maker, s)
			testkit.Equal(t, site.get("/"), "200 OK x", "HTTP/1")
			got := site.sendText("PRO / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			testkit.Contains(t, got, "HTTP/1.1 200", "a method that begins like the preface")
			if got = site.sendText("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"); by == "tare" {
				testkit.Lacks(t, got, "HTTP/1.1 2", "no preface after all")
			}
			for _, size := range []int{1, 7, 23, 24, 25, 100} {
				c := site.dial()
				settings := "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
				for piece := range slices.Chunk([]byte(http2.ClientPreface+settings), size) {
					c.Write(piece)
					time.Sleep(time.Millisecond)
				}
				head := make([]byte, 9)
				testkit.Value(io.ReadFull(c, head))(t)
				testkit.Equal(t, head[3], 4, "SETTINGS, in pieces of", size)
			}
		})
	}
}
