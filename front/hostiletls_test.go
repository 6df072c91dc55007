package front_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// Attacks 48 and 49: a client cannot avoid the required certificate by naming one host in the
// handshake and another in the request, or by a connection that is older than the requirement.
func TestClientCertificateIsOfRequestsHost(t *testing.T) {
	newHost := func(name string, clientAuth tls.ClientAuthType) conf.Host {
		h := conf.Host{Names: []string{name}, Listen: []conf.Listen{{Addr: "127.0.0.1:1", TLS: true}},
			Steps: []conf.Step{conf.Return{Status: 200, Text: conf.Text(name)}}}
		if clientAuth != tls.NoClientCert {
			h.Listen[0].TLSConfig = &tls.Config{ClientAuth: clientAuth}
		}
		return h
	}
	h := newFront(t, conf.Config{Hosts: []conf.Host{newHost("open", tls.NoClientCert),
		newHost("closed", tls.RequireAndVerifyClientCert), newHost("optional", tls.VerifyClientCertIfGiven)}})
	good := []*x509.Certificate{{}}
	for _, test := range []struct {
		sniName, received string
		verified          bool
		status            int
	}{
		{"open", "open", false, 200}, {"open", "closed", false, 421}, {"", "closed", false, 421},
		{"none", "closed", false, 421}, {"open", "CLOSED:443", false, 421},
		{"optional", "closed", true, 421}, {"closed", "optional", true, 421}, {"open", "optional", false, 421},
		{"closed", "open", true, 200},
		{"closed", "closed", true, 200}, {"Closed", "closed.", true, 200}, {"closed", "closed", false, 400},
		{"optional", "optional", false, 200},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host, r.TLS = test.received, &tls.ConnectionState{ServerName: test.sniName}
		if test.verified {
			r.TLS.PeerCertificates, r.TLS.VerifiedChains = good, [][]*x509.Certificate{good}
		}
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(local)))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.status || test.status != 200 && strings.Contains(w.Body.String(), "closed") {
			t.Errorf("a handshake with %q, a request for %q: %d %q, want %d", test.sniName, test.received, w.Code,
				w.Body, test.status)
		}
	}
}

// Attacks 15 and 40: an HTTP/2 stream ends if its body does not arrive or its response is not read.
// A body whose length differs from the declared one is an error.
func TestStalledStreamsEnd(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	noLeaks(t)
	arrived := make(chan string, 10)
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil {
			arrived <- r.URL.Path + " " + string(b)
		}
		_, _ = io.WriteString(w, "answer")
	})
	c := parseConf(t, "", "client_body_timeout 100ms; send_timeout 100ms; root "+site(t, "file")+
		"; location /pass { proxy_pass http://"+to+"; } location /say { return 200 said; } location /error { return 404; }")
	s := serveHTTP2(t, newFront(t, c))
	for _, test := range []struct {
		name, method, path, length, body string
		unended                          bool
		ends                             string // of the stream: a response's status, or reset
	}{
		{"no body", "POST", "/pass/1", "", "", true, "reset"},
		{"half a body", "POST", "/pass/2", "10", "half", true, "reset"},
		{"a body that is too short", "POST", "/pass/3", "10", "short", false, "reset"},
		{"a body that is too long", "POST", "/pass/4", "2", "long", false, "reset"},
		{"an upstream's response", "GET", "/pass/5", "", "", false, "reset"},
		{"a text", "GET", "/say", "", "", false, "reset"},
		{"an error's page", "GET", "/error", "", "", false, "reset"},
		{"a file", "GET", "/file", "", "", false, "reset"},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := startH2(t, overTLS(t, s.Listener.Addr().String(), ""), 0) // it reads no byte of a body
			st.request(t, ":method", test.method, ":scheme", "https", ":authority", "front.test", ":path", test.path,
				"content-length", test.length)
			if test.method == "POST" {
				must(t, st.WriteData(1, !test.unended, []byte(test.body)))
			}
			if got := st.end(t); got != test.ends && !strings.HasSuffix(got, "reset") {
				t.Errorf("it ends with %s, want %s", got, test.ends)
			}
		})
	}
	s.Close()
	for len(arrived) > 0 {
		testkit.Equal(t, <-arrived, "/pass/5 ", "the upstream received")
	}
}

// end waits for the end of the stream, and returns the statuses, and whether it was reset.
func (st *h2Client) end(t *testing.T) string {
	t.Helper()
	status := ""
	for {
		f, err := st.ReadFrame()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return status + " and goes on for ever"
		}
		must(t, err)
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			status = f.PseudoValue("status")
			if f.StreamEnded() {
				return status
			}
		case *http2.RSTStreamFrame:
			return status + "reset"
		case *http2.GoAwayFrame:
			return status + "reset"
		}
	}
}

// schemeOverTLS sends a request by HTTP/2 over TLS that names a scheme. It returns the status and
// the body.
func schemeOverTLS(t *testing.T, addr, scheme, host string) (status, body string) {
	t.Helper()
	f := startH2(t, overTLS(t, addr, host), 1<<16)
	f.request(t, ":method", "GET", ":scheme", scheme, ":authority", host, ":path", "/")
	for {
		frame := testkit.Value(f.ReadFrame())(t)
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
	pair := testkit.Value(tls.X509KeyPair(cert, key))(t)
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
		l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
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
