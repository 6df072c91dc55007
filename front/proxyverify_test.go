package front_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

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
		pair, err := tls.X509KeyPair(cert, key)
		must(t, err)
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
			if got := a.get("/?n=" + good); got.status != 200 {
				t.Errorf("%s: %s: %d, want 200", name, good, got.status)
			}
		}
		for _, bad := range append(strings.Fields(c.bad), "a..b", "a/b", "..", ".", "a%20b", "-", "[", "[::1", "a:b",
			"a,b", "") {
			if got := a.get("/?n=" + bad); got.status != 502 {
				t.Errorf("%s: %s: %d, want 502", name, bad, got.status)
			}
		}
	}
}
