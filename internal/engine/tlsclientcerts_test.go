package engine_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"testing"
	"time"
)

// Handlers receive the certificate of a client, also if its session is resumed. A client without
// one is rejected where the host requires it, and served elsewhere.
func TestClientCertificatesReachHandlers(t *testing.T) {
	own := clientCertificate(t)
	roots := x509.NewCertPool()
	roots.AddCert(own.Leaf)
	open := &tls.Config{Certificates: testCertificates()}
	closed := open.Clone()
	closed.ClientAuth, closed.ClientCAs = tls.RequireAndVerifyClientCert, roots
	closed.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.VerifiedChains) == 0 {
			return fmt.Errorf("no chain of %d certificates was verified", len(s.PeerCertificates))
		}
		return nil
	}
	base := open.Clone()
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if hello.ServerName == "closed.example" {
			return closed, nil
		}
		return open, nil
	}
	onBothTLSPaths(t, func(t *testing.T, onShards bool) {
		address := serveConfig(t, onShards, base, func(w http.ResponseWriter, r *http.Request) {
			certs := r.TLS.PeerCertificates
			isClient := len(certs) > 0 && bytes.Equal(certs[0].Raw, own.Certificate[0])
			fmt.Fprint(w, isClient, r.TLS.DidResume)
		})
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			tickets := tls.NewLRUClientSessionCache(1)
			for _, step := range []struct {
				host            string
				hasCertificate  bool
				want            string // "" if the client is rejected
				forgetsSessions bool
			}{
				{"open.example", false, "false false", true},
				{"closed.example", false, "", true},
				{"closed.example", true, "true false", false},
				{"closed.example", true, "true true", false},
			} {
				config := &tls.Config{InsecureSkipVerify: true, ServerName: step.host, MaxVersion: version}
				if step.hasCertificate {
					config.Certificates = []tls.Certificate{own}
				}
				if !step.forgetsSessions {
					config.ClientSessionCache = tickets
				}
				if got := getOverTLS(address, config); got != step.want {
					t.Errorf("%s, %s, certificate %t: got %q, want %q", tls.VersionName(version), step.host,
						step.hasCertificate, got, step.want)
				}
			}
		}
	})
}

// clientCertificate returns a certificate that is its own authority.
func clientCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: key, Leaf: leaf}
}

// getOverTLS returns the body of a response on a connection of its own, or "" if there is none.
func getOverTLS(address string, config *tls.Config) string {
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("https://" + address)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(body)
}
