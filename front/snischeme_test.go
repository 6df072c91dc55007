package front_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// schemeOverTLS sends a request by HTTP/2 over TLS that names a scheme. It returns the status and
// the body.
func schemeOverTLS(t *testing.T, addr, scheme, host string) (status, body string) {
	t.Helper()
	f := startH2(t, overTLS(t, addr, host), 1<<16)
	f.request(t, ":method", "GET", ":scheme", scheme, ":authority", host, ":path", "/")
	for {
		frame, err := f.ReadFrame()
		must(t, err)
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			status = frame.PseudoValue("status")
		case *http2.DataFrame:
			body += string(frame.Data())
		}
		if frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			return status, body
		}
	}
}

// A request over HTTP/2 and TLS that names the scheme http gets what one with https gets: no client
// avoids a required certificate so.
func TestSchemeDoesNotHideTLS(t *testing.T) {
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: []string{"open.example", "closed.example"}})
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	newHost := func(name string, certs *conf.ClientCerts) conf.Host {
		return conf.Host{Names: []string{name}, ClientCerts: certs, Steps: []conf.Step{
			conf.Return{Status: 200, Text: "$scheme,$https,$http2,$ssl_server_name,$ssl_client_verify"}}}
	}
	handler := newFront(t, conf.Config{Hosts: []conf.Host{newHost("open.example", nil),
		newHost("closed.example", &conf.ClientCerts{Depth: 1})}})
	type server interface {
		ServeTLS(l net.Listener, certFile, keyFile string) error
		Close() error
	}
	for name, wrap := range map[string]func(*http.Server) server{
		"tare":     func(s *http.Server) server { return tare.Wrap(s) },
		"net/http": func(s *http.Server) server { return s },
	} {
		s := wrap(&http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair},
			ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2"}}})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ended := make(chan error, 1)
		go func() { ended <- s.ServeTLS(l, "", "") }()
		for _, scheme := range []string{"https", "http"} {
			status, body := schemeOverTLS(t, l.Addr().String(), scheme, "open.example")
			if want := "https,on,h2,open.example,NONE"; status != "200" || body != want {
				t.Errorf("%s, %s: %s %s, want %s", name, scheme, status, body, want)
			}
			if status, body = schemeOverTLS(t, l.Addr().String(), scheme, "closed.example"); status != "400" {
				t.Errorf("%s, %s without a certificate: %s %s, want 400", name, scheme, status, body)
			}
		}
		must(t, s.Close())
		<-ended
	}
}
