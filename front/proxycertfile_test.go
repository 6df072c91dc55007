package front_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// Certificates for upstreams are read from files that variables name. Missing ones fail the request
// and not the server, and a changed file is read again.
func TestCertificateForUpstreamsFromVariables(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) > 0 {
			fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		}
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	write := func(name, commonName string) {
		t.Helper()
		cert, key := testkit.SelfSign(t, x509.Certificate{Subject: pkix.Name{CommonName: commonName}})
		must(t, os.WriteFile(filepath.Join(dir, name+".pem"), cert, 0o600))
		must(t, os.WriteFile(filepath.Join(dir, name+".key"), key, 0o600))
	}
	write("a", "first")
	write("b", "second")
	must(t, os.WriteFile(filepath.Join(dir, "bad.pem"), []byte("x"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "bad.key"), []byte("x"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "folder.pem"), 0o700))
	// a file that never ends, and that Linux reports to be a regular one
	_ = os.Symlink("/proc/kmsg", filepath.Join(dir, "endless.pem"))
	a := serveHandler(t, newFront(t, proxyTo(conf.Proxy{
		Protocol: "https", To: conf.Text(s.Listener.Addr().String()),
		TLS: conf.ProxyTLS{Cert: "$arg_cert$arg_pem", Key: "$arg_cert.key", Dir: dir, NoResumption: true},
	})))
	for _, test := range []struct {
		query  string
		status int
		body   string
	}{
		{"", 200, ""}, {"cert=a&pem=.pem", 200, "first"}, {"cert=b&pem=.pem", 200, "second"},
		{"cert=missing&pem=.pem", 500, ""}, {"cert=bad&pem=.pem", 500, ""}, {"cert=folder&pem=.pem", 500, ""},
		{"cert=endless&pem=.pem", 500, ""},
		{"cert=" + filepath.Join(dir, "b") + "&pem=.pem", 200, "second"}, {"cert=a&pem=.pem", 200, "first"},
	} {
		if got := a.get("/?" + test.query); got.status != test.status || got.status == 200 && got.body != test.body {
			t.Errorf("%q: %d %q, want %d %q", test.query, got.status, got.body, test.status, test.body)
		}
	}
	write("a", "renewed")
	later := time.Now().Add(time.Minute) // a different time for sure
	must(t, os.Chtimes(filepath.Join(dir, "a.pem"), later, later))
	if got := a.get("/?cert=a&pem=.pem"); got.body != "renewed" {
		t.Errorf("after a change: %d %q", got.status, got.body)
	}
	must(t, os.Remove(filepath.Join(dir, "a.pem")))
	if got := a.get("/?cert=a&pem=.pem"); got.body != "renewed" {
		t.Errorf("after its removal: %d %q", got.status, got.body)
	}
}

// With NoResumption every connection makes a full handshake; otherwise sessions are resumed.
func TestSessionsWithUpstreams(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.DidResume)
	}))
	defer s.Close()
	for _, full := range []bool{false, true} {
		a := serveHandler(t, newFront(t, proxyTo(conf.Proxy{
			Protocol: "https", To: conf.Text(s.Listener.Addr().String()), TLS: conf.ProxyTLS{NoResumption: full},
		})))
		for i := range 3 {
			if got, want := a.get("/").body, fmt.Sprint(i > 0 && !full); got != want {
				t.Errorf("full %v, connection %d: resumed %s, want %s", full, i, got, want)
			}
		}
	}
}
