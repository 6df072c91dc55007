package front_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// The variables of TLS and of client certificates are nginx's.
func TestTLSVariablesAreNginxs(t *testing.T) {
	const names = "ssl_protocol ssl_cipher ssl_curve ssl_server_name ssl_alpn_protocol ssl_session_reused ssl_early_data ssl_client_verify ssl_client_s_dn " +
		"ssl_client_i_dn ssl_client_s_dn_legacy ssl_client_i_dn_legacy ssl_client_serial ssl_client_fingerprint ssl_client_v_start ssl_client_v_end " +
		"ssl_client_v_remain ssl_client_escaped_cert ssl_client_raw_cert ssl_client_cert"
	text := "$" + strings.ReplaceAll(names, " ", "\n$")
	certFile, keyFile := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: []string{"tls.example"}})
	must(t, os.WriteFile(certFile, cert, 0o600))
	must(t, os.WriteFile(keyFile, key, 0o600))
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)

	theirs := programs.FreeAddress(t)
	startNginx(t, "tcp", theirs, shortDir(t), fmt.Sprintf(`ssl_certificate %s; ssl_certificate_key %s;
		ssl_verify_client optional_no_ca; ssl_ecdh_curve X25519:P-384:P-256; ssl_protocols TLSv1.2 TLSv1.3;
		server { listen %s ssl; return 200 "%s"; }`, certFile, keyFile, theirs, text))
	h := newFront(t, oneHost(conf.Location{Path: "/",
		Steps: []conf.Step{conf.Return{Status: 200, Text: conf.Text(text)}}}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequestClientCert}}
	go func() { _ = server.ServeTLS(l, "", "") }()
	t.Cleanup(func() { server.Close() })

	mine := clientCertificate(t)
	for name, config := range map[string]*tls.Config{
		"TLS 1.3":            {},
		"TLS 1.2":            {MaxVersion: tls.VersionTLS12},
		"P-384":              {CurvePreferences: []tls.CurveID{tls.CurveP384}},
		"with a certificate": {Certificates: []tls.Certificate{mine}},
		"with one, and a cipher": {Certificates: []tls.Certificate{mine}, MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}},
		"another protocol as well": {NextProtos: []string{"http/1.1"}, CurvePreferences: []tls.CurveID{tls.X25519}},
	} {
		config.ServerName, config.InsecureSkipVerify = "tls.example", true
		if config.CurvePreferences == nil {
			// the certificate's, which TLS 1.2 requires
			config.CurvePreferences = []tls.CurveID{tls.CurveP256}
		}
		want, got := strings.Split(strings.ReplaceAll(requestTLS(t, theirs, config), "\n\t", " "), "\n"),
			strings.Split(requestTLS(t, l.Addr().String(), config), "\n")
		if len(want) != len(got) {
			t.Errorf("%s: nginx has %q, we have %q", name, want, got)
			continue
		}
		for i := range want {
			// for a reason in OpenSSL's words
			failed := strings.HasPrefix(want[i], "FAILED:") && strings.HasPrefix(got[i], "FAILED:")
			if want[i] != got[i] && !failed {
				t.Errorf("%s: nginx has %q, we have %q", name, want[i], got[i])
			}
		}
	}
}

// clientCertificate returns a certificate whose name has several parts.
func clientCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	email := pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, Value: "a@tls.example"}
	cert, key := testkit.SelfSign(t, x509.Certificate{NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(100*24*time.Hour + 12*time.Hour), Subject: pkix.Name{
			Country: []string{"DE"}, Organization: []string{"tare, ink+\"\\<>; ="}, OrganizationalUnit: []string{" ä "},
			CommonName: "#a client", ExtraNames: []pkix.AttributeTypeAndValue{email},
		}})
	pair, err := tls.X509KeyPair(cert, key)
	must(t, err)
	return pair
}

func requestTLS(t *testing.T, addr string, config *tls.Config) string {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("https://" + addr + "/")
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(body)
}
