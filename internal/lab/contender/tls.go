package contender

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

type certFiles struct{ certFile, keyFile string }

const certLifetime = 365 * 24 * time.Hour // longer than any run

// newCertificate writes a self-signed certificate (ECDSA, P-256) and its key to a folder.
func newCertificate(dir string) (certFiles, error) {
	files := certFiles{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, fmt.Errorf("contender: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certLifetime), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	cert, certErr := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	secret, keyErr := x509.MarshalPKCS8PrivateKey(key)
	return files, errors.Join(certErr, keyErr,
		os.WriteFile(files.certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644),
		os.WriteFile(files.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// ClientTLS returns the configuration of all TLS clients of the lab: the generator and the client
// that compares responses. It allows one version and one key exchange, and servers select its first
// cipher suite. It does not verify the certificate, which is self-signed; package equal compares it
// between contenders.
func ClientTLS(host string) *tls.Config {
	return &tls.Config{
		ServerName: host, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519},
		InsecureSkipVerify: true, //nolint:gosec // see above
	}
}
