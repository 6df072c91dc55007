package equal_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/testkit"
)

// startTLS starts a server with net/http's HTTP/1.1 and HTTP/2.
func startTLS(t *testing.T) contender.Place {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Host, r.Header.Get("X-Kind"))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return contender.Place{Protocol: contender.HTTP, Address: server.Listener.Addr().String(), TLS: true}
}

func TestResponsesOverTLS(t *testing.T) {
	at := startTLS(t)
	for _, test := range []struct {
		name      string
		request   equal.Request
		body      string
		tls       string // a part of the description
		keepAlive bool
	}{
		{"HTTP/1.1", equal.Request{}, "HTTP/1.1 a.test plain", `X25519, protocol "http/1.1"`, true},
		{"HTTP/2", equal.Request{Version: equal.HTTP2}, "HTTP/2.0 a.test plain", `X25519, protocol "h2"`, true},
		{"one request", equal.Request{PerConnection: 1}, "HTTP/1.1 a.test plain", `protocol "http/1.1"`, false},
		{"one request by HTTP/2", equal.Request{Version: equal.HTTP2, PerConnection: 1}, "HTTP/2.0 a.test plain",
			`protocol "h2"`, false},
		{"resumed", equal.Request{PerConnection: 1, Resume: true}, "HTTP/1.1 a.test plain", ", resumed", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.request
			r.Method, r.Path, r.Host, r.Header = "GET", "/", "a.test", []string{"X-Kind: plain"}
			got := testkit.Value(equal.Fetch(t.Context(), at, r))(t)
			if string(got.Body) != test.body || got.KeepAlive != test.keepAlive {
				t.Errorf("body %q, kept %v", got.Body, got.KeepAlive)
			}
			if !strings.HasPrefix(got.TLS, "TLS 1.3, TLS_") || !strings.Contains(got.TLS, test.tls) {
				t.Errorf("TLS %q, want %q in it", got.TLS, test.tls)
			}
			testkit.Equal(t, strings.Contains(got.TLS, ", resumed"), r.Resume, got.TLS, "is resumed")
			if hasBytes := got.Bytes > 0; hasBytes == (r.Version == equal.HTTP2) {
				t.Errorf("%d bytes", got.Bytes)
			}
		})
	}
}

func TestDifferencesOfTLSAreFound(t *testing.T) {
	at, r := startTLS(t), equal.Request{Method: "GET", Path: "/", Host: "a.test"}
	one := testkit.Value(equal.Fetch(t.Context(), at, r))(t)
	r.Version = equal.HTTP2
	two := testkit.Value(equal.Fetch(t.Context(), at, r))(t)
	two.Body, two.Bytes = one.Body, one.Bytes
	all := equal.Compare(one, two)
	if len(all) != 1 || all[0].What != "TLS" {
		t.Errorf("got %v, want a difference of TLS", all)
	}
}

func TestHTTP2WithoutTLSIsAnError(t *testing.T) {
	at := startTLS(t)
	at.TLS = false
	r := equal.Request{Method: "GET", Path: "/", Host: "a.test", Version: equal.HTTP2}
	_, err := equal.Fetch(t.Context(), at, r)
	if err == nil || err.Error() != "HTTP/2 is compared over TLS only" {
		t.Errorf("got %v", err)
	}
}
