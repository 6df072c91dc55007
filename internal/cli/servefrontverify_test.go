package cli_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

const verified = `events {}
http {
	server {
		listen PORT1 ssl http2;
		ssl_certificate DIR/one.pem; ssl_certificate_key DIR/one.key;
		VERIFY
		location / { return 200 "$ssl_client_verify"; }
	}
}
`

// A reload's rules for client certificates apply to connections that were open before: over
// HTTP/1.1 and HTTP/2, and to resumed sessions.
func TestReloadVerifiesClientCertificatesAgain(t *testing.T) {
	t.Parallel()
	f := newFrontSite(t)
	putCertificate(t, f.path("one.pem"), f.path("one.key"), 1)
	openToAll(t, f.path("one.pem"), f.path("one.key"))
	var clients [2]tls.Certificate
	for i := range clients {
		cert, key := testkit.SelfSign(t, x509.Certificate{Subject: pkix.Name{CommonName: fmt.Sprint(i)}})
		pair, err := tls.X509KeyPair(cert, key)
		testkit.Must(t, err)
		clients[i] = pair
		testkit.Must(t, os.WriteFile(f.path(fmt.Sprintf("ca%d.pem", i)), cert, 0o644))
	}
	conf := func(addr, verify string) string {
		return strings.NewReplacer("PORT1", addr, "VERIFY", verify).Replace(verified)
	}
	addr := f.passed(1, conf("PORT1", "ssl_verify_client on; ssl_client_certificate DIR/ca0.pem;"))[0]
	f.await("tare: running as ")
	sessions := tls.NewLRUClientSessionCache(10)
	config := func(protocol string) *tls.Config {
		return &tls.Config{
			InsecureSkipVerify: true, NextProtos: []string{protocol}, ClientSessionCache: sessions,
			// whatever it wants
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate,
				error) {
				return &clients[0], nil
			},
		}
	}
	http1 := func() (request func() string) {
		c, err := tls.Dial("tcp", addr, config("http/1.1"))
		testkit.Must(t, err)
		t.Cleanup(func() { c.Close() })
		in := bufio.NewReader(c)
		return func() string {
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: any\r\n\r\n")
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				return "closed"
			}
			return statusAndBody(t, resp)
		}
	}
	transport := &http.Transport{TLSClientConfig: config("h2"), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	http2 := func() string {
		resp, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + addr)
		testkit.Must(t, err)
		if resp.ProtoMajor != 2 {
			t.Errorf("%s", resp.Proto)
		}
		return statusAndBody(t, resp)
	}
	for _, step := range []struct{ verify, want string }{
		{"", "200 SUCCESS"}, // as it was started
		{"ssl_verify_client on; ssl_client_certificate DIR/ca1.pem;", "400"},
		{"ssl_verify_client optional_no_ca; ssl_client_certificate DIR/ca1.pem;", "200 FAILED:self-signed certificate"},
		{"ssl_verify_client optional; ssl_client_certificate DIR/ca0.pem;", "200 SUCCESS"},
		{"ssl_verify_client off;", "200"},
		{"ssl_verify_client on; ssl_client_certificate DIR/ca0.pem;", "200 SUCCESS"},
	} {
		old := http1()
		before := old()
		http2()
		if step.verify != "" {
			f.configure(conf(addr, step.verify))
			f.reload()
		}
		for name, request := range map[string]func() string{"an open connection": old, "a new connection": http1(),
			"HTTP/2": http2} {
			got := request()
			switch {
			case strings.HasPrefix(got, step.want):
			case name == "an open connection" && before == "400" && got == "closed":
			// it was opened without a certificate
			case name != "a new connection" && step.want == "200 SUCCESS" && got == "400":
			default:
				t.Errorf("%s, %s: %q, want %q", step.verify, name, got, step.want)
			}
		}
		transport.CloseIdleConnections()
	}
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// statusAndBody returns a response in short form; errors have pages.
func statusAndBody(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, b)
}
