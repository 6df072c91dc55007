package load_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// The certificate is verified for the host of the URL.
func TestCertificatesAreVerified(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	port := strings.TrimPrefix(server.URL, "https://127.0.0.1:")
	for _, test := range []struct {
		url    string
		config *tls.Config
		want   string // of the error; none if empty
	}{
		{server.URL, &tls.Config{RootCAs: roots}, ""},
		{"https://example.com:" + port, &tls.Config{RootCAs: roots}, ""},
		{server.URL, nil, "TLS: tls: failed to verify certificate"},
		{"https://other.test:" + port, &tls.Config{RootCAs: roots}, "not other.test"},
		{"https://other.test:" + port, &tls.Config{RootCAs: roots, ServerName: "example.com"}, ""},
	} {
		r, err := load.Run(context.Background(), load.Plan{
			URL: test.url, TLS: test.config, Resolve: []string{"*:" + port + ":127.0.0.1"}, Connections: 2,
			Requests: 10,
		})
		if test.want == "" {
			if err != nil || r.Requests != 10 || r.Errors.Total() != 0 {
				t.Errorf("%s: %v, %+v", test.url, err, r)
			}
			continue
		}
		failed, ok := errors.AsType[*load.ConnectError](err)
		if !ok || !strings.Contains(failed.First, test.want) {
			t.Errorf("%s: got %v, want %s", test.url, err, test.want)
		}
	}
}

// A server that does not support TLS, or stops in the handshake, blocks nothing.
func TestTLSFailuresAreErrors(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it takes seconds")
	plain := httptest.NewServer(nil)
	defer plain.Close()
	for name, test := range map[string]struct {
		url     string
		version load.Version
		want    string
	}{
		"plain": {strings.Replace(plain.URL, "http", "https", 1), 0,
			"first record does not look like a TLS handshake"},
		"silent": {secure(script(t, func(_ int, c net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) })), 0,
			"timeout: in the TLS handshake"},
		"closes": {secure(script(t, func(_ int, _ net.Conn, r *bufio.Reader) { r.Peek(1) })), 0, "TLS: "},
		"dribble": {secure(script(t, func(_ int, c net.Conn, r *bufio.Reader) {
			io.WriteString(c, "\x16\x03\x03")
			io.Copy(io.Discard, r)
		})), 0, "timeout: in the TLS handshake"},
		"HTTP/1": {tlsServer(t), load.HTTP2, "does not support HTTP/2: it selected \"\" by ALPN"},
	} {
		t.Run(name, func(t *testing.T) {
			p := load.Plan{URL: test.url, Version: test.version, TLS: &tls.Config{InsecureSkipVerify: true},
				Connections: 4, Duration: time.Hour, Timeout: patience}
			if strings.HasPrefix(test.want, "timeout") {
				p.Connections, p.Timeout = 200, 300*time.Millisecond
			}
			_, err := load.Run(t.Context(), p)
			if failed, ok := errors.AsType[*load.ConnectError](err); !ok || !strings.Contains(failed.First, test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func secure(url string) string { return strings.Replace(url, "http://", "https://", 1) }

// tlsServer starts a TLS server without ALPN.
func tlsServer(t *testing.T) string {
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	l := testkit.Value(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates}))(t)
	t.Cleanup(func() { l.Close() })
	go http.Serve(l, nil)
	return "https://" + l.Addr().String()
}

func TestResumedSessionsAreCounted(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	for _, caches := range []bool{false, true} {
		config := &tls.Config{InsecureSkipVerify: true, ServerName: "example.com"}
		if caches {
			config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		}
		r := run(t, load.Plan{URL: server.URL, TLS: config, Connections: 1, PerConnection: 1, Requests: 20})
		var want uint64
		if caches {
			want = r.Opened + r.Connects - 1 // all but the first
		}
		if r.Resumed != want || r.Connects == 0 {
			t.Errorf("cache %v: %d of %d sessions were resumed", caches, r.Resumed, r.Connects)
		}
	}
}
