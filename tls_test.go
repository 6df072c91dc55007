package tare_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"
)

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
			results := make(map[string]string)
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
					results[by] = c.ConnectionState().NegotiatedProtocol
					c.Close()
					s.Close()
				}
				select {
				case err := <-served:
					if !test.ok {
						results[by] = err.Error()
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
			if results["tare"] != results["net/http"] {
				t.Errorf("tare %q, net/http %q", results["tare"], results["net/http"])
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
			results := make(map[string]string)
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
						results[by] += fmt.Sprint(offered, " failed\n")
						continue
					}
					proto := c.ConnectionState().NegotiatedProtocol
					results[by] += fmt.Sprint(offered, " ", proto)
					if proto != "h2" {
						c.SetDeadline(time.Now().Add(patience))
						io.WriteString(c, getClose)
						b, err := io.ReadAll(c)
						_, body, _ := strings.Cut(string(b), "\r\n\r\n")
						results[by] += fmt.Sprint(" ", body, " ", isTimeout(err))
					}
					results[by] += "\n"
					c.Close()
				}
			}
			if results["tare"] != results["net/http"] {
				t.Errorf("tare\n%s\nnet/http\n%s", results["tare"], results["net/http"])
			}
		})
	}
}
