// Package tlstest has certificates and settings of TLS for tests.
package tlstest

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

	"github.com/tarehq/tare/internal/testkit"
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

// Configs returns the settings of a server with ServerCertificate, and of its clients.
func Configs() (server, client *tls.Config) {
	cert, roots := ServerCertificate(), x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	return &tls.Config{Certificates: []tls.Certificate{cert}}, &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

// Issued is a certificate with its key.
type Issued struct {
	*x509.Certificate
	Key *ecdsa.PrivateKey
}

// Issue returns a new certificate that another one has signed, or itself if by is nil. By default it
// has a random serial number and is valid for one year.
func Issue(t testing.TB, template x509.Certificate, by *Issued) *Issued {
	t.Helper()
	if template.SerialNumber == nil {
		template.SerialNumber = testkit.Value(rand.Int(rand.Reader, big.NewInt(1<<62)))(t)
	}
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour)
	}
	i := &Issued{&template, testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	if by == nil {
		by = i
	}
	der := testkit.Value(x509.CreateCertificate(rand.Reader, &template, by.Certificate, i.Key.Public(), by.Key))(t)
	i.Certificate = testkit.Value(x509.ParseCertificate(der))(t)
	return i
}

// Revoke returns a list of revoked certificates in DER, which is valid for a time.
func (i *Issued) Revoke(t testing.TB, from, until time.Time, revoked ...*big.Int) []byte {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: from, NextUpdate: until}
	for _, number := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: number, RevocationTime: time.Now()})
	}
	return testkit.Value(x509.CreateRevocationList(rand.Reader, list, i.Certificate, i.Key))(t)
}

// SelfSign is Issue for a self-signed certificate. It returns the certificate and its key in PEM.
func SelfSign(t testing.TB, template x509.Certificate) (cert, key []byte) {
	t.Helper()
	i := Issue(t, template, nil)
	secret := testkit.Value(x509.MarshalPKCS8PrivateKey(i.Key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}
