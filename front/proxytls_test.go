package front_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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
	a.get("/?cert=a&pem=.pem").is(t, 200, "renewed")
	must(t, os.Remove(filepath.Join(dir, "a.pem")))
	a.get("/?cert=a&pem=.pem").is(t, 200, "renewed")
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

// A certificate is valid for the names that nginx accepts it for, and an invalid name does not skip
// the check.
func TestCertificateNamesAreNginxs(t *testing.T) {
	common := func(names ...string) pkix.Name {
		var n pkix.Name
		for _, name := range names {
			n.ExtraNames = append(n.ExtraNames, pkix.AttributeTypeAndValue{Type: []int{2, 5, 4, 3}, Value: name})
		}
		return n
	}
	for name, c := range map[string]struct {
		certificate x509.Certificate
		good, bad   string // names
	}{
		"DNS name": {x509.Certificate{DNSNames: []string{"good.example"},
			Subject: common("other.example")}, "good.example GOOD.example good.example:443",
			"other.example bad.example a.good.example"},
		"wild DNS name": {x509.Certificate{DNSNames: []string{"*.good.example"}},
			"a.good.example A.Good.Example", "good.example a.b.good.example"},
		"wild domain": {x509.Certificate{DNSNames: []string{"*.example", "Other.Example"}}, "other.example",
			"a.example A.EXAMPLE a.b.example"},
		"IP address": {x509.Certificate{IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1), net.IPv6loopback},
			Subject: common("10.0.0.2")}, "10.0.0.1 [::1] [::1]:1 ::1", "10.0.0.2 [::2]"},
		"common name": {x509.Certificate{Subject: common("Good.example")},
			"good.example GOOD.EXAMPLE good.example:1", "bad.example a.good.example example"},
		"several common names": {x509.Certificate{Subject: common("one.example", "two.example")},
			"one.example two.example", "three.example"},
		"wild common name": {x509.Certificate{Subject: common("*.good.example")}, "a.good.example",
			"good.example a.b.good.example .good.example"},
		"wild everything":    {x509.Certificate{Subject: common("*.example")}, "", "a.example"},
		"star inside":        {x509.Certificate{Subject: common("a*.good.example")}, "", "ab.good.example"},
		"common name for IP": {x509.Certificate{Subject: common("10.0.0.1")}, "10.0.0.1", "10.0.0.2"},
		"mail beside": {x509.Certificate{Subject: common("good.example"),
			EmailAddresses: []string{"a@b.example"}}, "good.example", "b.example"},
		"constraint": {x509.Certificate{Subject: common("good.example"),
			PermittedDNSDomains: []string{"other.example"}}, "", "good.example"},
		"case beyond ASCII": {x509.Certificate{Subject: common("\u212a.good.example")}, "", "k.good.example"},
		"no name":           {x509.Certificate{Subject: common("")}, "", "good.example"},
	} {
		cert, key := testkit.SelfSign(t, c.certificate)
		pair := testkit.Value(tls.X509KeyPair(cert, key))(t)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(cert)
		a := serveHandler(t, newFront(t, proxyTo(conf.Proxy{
			Protocol: "https", To: conf.Text(s.Listener.Addr().String()),
			TLS: conf.ProxyTLS{Config: &tls.Config{RootCAs: roots}, Name: "$arg_n"},
		})))
		for _, good := range strings.Fields(c.good) {
			testkit.Equal(t, a.get("/?n="+good).status, 200, name, good)
		}
		for _, bad := range append(strings.Fields(c.bad), "a..b", "a/b", "..", ".", "a%20b", "-", "[", "[::1", "a:b",
			"a,b", "") {
			testkit.Equal(t, a.get("/?n="+bad).status, 502, name, bad)
		}
	}
}
