package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"testing"
	"time"
)

// ServerCertificate returns the certificate of package httptest, with its Leaf. It is valid for
// example.com and for addresses of this machine.
func ServerCertificate() tls.Certificate {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	c := s.TLS.Certificates[0]
	c.Leaf = s.Certificate()
	return c
}

// TLSConfigs returns the settings of a server with ServerCertificate, and of its clients.
func TLSConfigs() (server, client *tls.Config) {
	cert, roots := ServerCertificate(), x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	return &tls.Config{Certificates: []tls.Certificate{cert}}, &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

// SelfSign returns a new self-signed certificate and its key in PEM. By default the certificate has
// serial number 1 and is valid for one year.
func SelfSign(t testing.TB, template x509.Certificate) (cert, key []byte) {
	t.Helper()
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(1)
	}
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}
