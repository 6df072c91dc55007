package cli_test

import (
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// putCertificate writes a new certificate with a serial number, and its key.
func putCertificate(t *testing.T, cert, key string, number int64) {
	t.Helper()
	public, secret := testkit.SelfSign(t, x509.Certificate{SerialNumber: big.NewInt(number),
		DNSNames: []string{"example.org"}})
	replaceFile(t, cert, string(public))
	replaceFile(t, key, string(secret))
}

// replaceFile replaces a file by another, as programs that renew certificates do.
func replaceFile(t *testing.T, name, text string) {
	t.Helper()
	write(t, name+".new", text)
	testkit.Must(t, os.Rename(name+".new", name))
}

// number returns the serial number of the certificate on a new connection.
func number(t *testing.T, url string) int64 {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Get(url)
	testkit.Must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Proto != "HTTP/2.0" {
		t.Fatalf("%s %s", resp.Proto, resp.Status)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func wantNumber(t *testing.T, url string, want int64) {
	t.Helper()
	if got := number(t, url); got != want {
		t.Errorf("certificate %d, want %d", got, want)
	}
}

// An invalid certificate does not replace the current one; a valid one does, with and without a
// signal.
func TestInvalidCertificateDoesNotReplaceTheCurrentOne(t *testing.T) {
	t.Parallel()
	dir := site(t)
	cert, key := filepath.Join(filepath.Dir(dir), "cert.pem"), filepath.Join(filepath.Dir(dir), "key.pem")
	putCertificate(t, cert, key, 1)
	s := serveFiles(t, "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "-c", cert, "-k", key, dir)
	url := "https://" + s.address()
	s.await("certificate: example.org, until .*; reloaded when it changes")
	wantNumber(t, url, 1)

	replaceFile(t, cert, "rubbish")
	s.await("certificate: still serving the old one: .*failed to find any PEM data")
	wantNumber(t, url, 1)
	putCertificate(t, cert, key, 2)
	s.await("certificate: serving a new one: example.org")
	wantNumber(t, url, 2)

	testkit.Must(t, os.Remove(key))
	s.signal(syscall.SIGHUP)
	s.await("certificate: still serving the old one: key: .*no such file")
	wantNumber(t, url, 2)
	putCertificate(t, cert, key, 3)
	awaitRepeated(t, s, "serving a new one", 2)
	s.signal(syscall.SIGHUP)
	s.await("certificate: unchanged\n")
	wantNumber(t, url, 3)
	if code := s.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// insecure makes a client accept any certificate.
func insecure(c *http.Client) {
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
}
