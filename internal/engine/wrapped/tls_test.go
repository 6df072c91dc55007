package tare_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// compare fails the test unless both servers have the same result.
func compare(t *testing.T, result func(maker func(*http.Server) server) string) {
	t.Helper()
	testkit.Equal(t, result(makers["tare"]), result(makers["net/http"]), "as net/http")
}

// Certificates and keys come from the same sources as in net/http, with the same errors if they are
// missing. The caller's TLSConfig is not changed.
func TestCertificatesAreFoundAsByNetHTTP(t *testing.T) {
	certFile, keyFile := certificateFiles(t)
	cert := testkit.ServerCertificate()
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
				l := listen(t)
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

// protocols returns a set of protocols.
func protocols(set ...func(*http.Protocols, bool)) *http.Protocols {
	p := new(http.Protocols)
	for _, f := range set {
		f(p, true)
	}
	return p
}

// After a Serve, TLSNextProto has the entries that net/http sets. Programs look there for HTTP/2.
func TestTLSNextProtoIsThatOfNetHTTP(t *testing.T) {
	certFile, keyFile := certificateFiles(t)
	type handlers = map[string]func(*http.Server, *tls.Conn, http.Handler)
	http1, http2 := (*http.Protocols).SetHTTP1, (*http.Protocols).SetHTTP2
	h2c := (*http.Protocols).SetUnencryptedHTTP2
	for name, settings := range map[string]func() *http.Server{
		"default": func() *http.Server { return new(http.Server) },
		"config":  func() *http.Server { return &http.Server{TLSConfig: new(tls.Config)} },
		"config of h2": func() *http.Server {
			return &http.Server{TLSConfig: &tls.Config{NextProtos: []string{"h2"}}}
		},
		"no handlers":    func() *http.Server { return &http.Server{TLSNextProto: handlers{}} },
		"own":            func() *http.Server { return &http.Server{TLSNextProto: handlers{"foo": nil}} },
		"HTTP/1":         func() *http.Server { return &http.Server{Protocols: protocols(http1)} },
		"HTTP/2":         func() *http.Server { return &http.Server{Protocols: protocols(http2)} },
		"HTTP/1 and h2c": func() *http.Server { return &http.Server{Protocols: protocols(http1, h2c)} },
		"both, no handlers": func() *http.Server {
			return &http.Server{Protocols: protocols(http1, http2), TLSNextProto: handlers{}}
		},
	} {
		for how, serve := range map[string]func(server) error{
			"Serve":              func(s server) error { return s.Serve(listen(t)) },
			"ServeTLS":           func(s server) error { return s.ServeTLS(listen(t), certFile, keyFile) },
			"ServeTLS, no files": func(s server) error { return s.ServeTLS(listen(t), "", "") },
			"ListenAndServe":     server.ListenAndServe,
			"ListenAndServeTLS":  func(s server) error { return s.ListenAndServeTLS(certFile, keyFile) },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				compare(t, func(maker func(*http.Server) server) string {
					inner := settings()
					inner.Addr = "127.0.0.1:0"
					serving, served := make(chan bool, 2), make(chan error, 1)
					inner.BaseContext = func(net.Listener) context.Context { serving <- true; return t.Context() }
					s := maker(inner)
					go func() { served <- serve(s) }()
					select {
					case <-serving:
						s.Close()
						<-served
					case <-served:
						s.Close()
					}
					return fmt.Sprint(slices.Sorted(maps.Keys(inner.TLSNextProto)))
				})
			})
		}
	}
}

// ALPN offers what Protocols and TLSNextProto configure.
func TestALPNOffersConfiguredProtocols(t *testing.T) {
	for name, settings := range map[string]func() *http.Server{
		"default":     func() *http.Server { return &http.Server{} },
		"HTTP/1 only": func() *http.Server { return &http.Server{Protocols: protocols((*http.Protocols).SetHTTP1)} },
		"HTTP/2 only": func() *http.Server { return &http.Server{Protocols: protocols((*http.Protocols).SetHTTP2)} },
		"no TLSNextProto": func() *http.Server {
			return &http.Server{TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
		},
		"another, too": func() *http.Server {
			return &http.Server{TLSConfig: &tls.Config{NextProtos: []string{"foo", "http/1.1"}}}
		},
		"http2server=0": func() *http.Server { return &http.Server{} },
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "http2server") {
				t.Setenv("GODEBUG", name)
			}
			compare(t, func(maker func(*http.Server) server) (result string) {
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
						result += fmt.Sprint(offered, " failed\n")
						continue
					}
					proto := c.ConnectionState().NegotiatedProtocol
					result += fmt.Sprint(offered, " ", proto)
					if proto != "h2" {
						c.SetDeadline(time.Now().Add(patience))
						io.WriteString(c, getClose)
						b, err := io.ReadAll(c)
						_, body, _ := strings.Cut(string(b), "\r\n\r\n")
						result += fmt.Sprint(" ", body, " ", isTimeout(err))
					}
					result += "\n"
					c.Close()
				}
				return result
			})
		})
	}
}
