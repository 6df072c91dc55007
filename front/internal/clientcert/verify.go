// Package clientcert verifies client certificates as nginx's OpenSSL does, and formats their names as
// it does.
package clientcert

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"
	"weak"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/crl"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

// Verifier verifies client certificates as nginx's OpenSSL does: only self-issued certificates
// are trust anchors. It belongs to a plan, so that a new plan verifies older connections again.
type Verifier struct {
	from                 *conf.ClientCerts
	roots, intermediates *x509.CertPool

	// Why a certificate is rejected, or "", by the address of its slot in the connection's state.
	verified *lru.Cache[weak.Pointer[*x509.Certificate], string]
}

// maxVerifiedConns bounds the connections whose results are remembered. 4096 take about 500 KB.
const maxVerifiedConns = 4096

// Reasons, in OpenSSL's words. The mode optional_no_ca accepts certificates with the first four.
const (
	selfSigned      = "self-signed certificate"
	selfSignedAbove = "self-signed certificate in certificate chain"
	noLocalIssuer   = "unable to get local issuer certificate"
	unverifiedLeaf  = "unable to verify the first certificate"

	noIssuer     = "unable to get issuer certificate"
	notYetValid  = "certificate is not yet valid"
	hasExpired   = "certificate has expired"
	chainTooLong = "certificate chain too long"
	unsuitable   = "unsuitable certificate purpose"
	invalidCA    = "invalid CA certificate"
)

// New compiles ClientCerts; nil means none.
func New(from *conf.ClientCerts) *Verifier {
	if from == nil {
		return nil
	}
	v := &Verifier{from: from, roots: x509.NewCertPool(), intermediates: x509.NewCertPool()}
	v.verified, _ = lru.New[weak.Pointer[*x509.Certificate], string](maxVerifiedConns)
	for _, cert := range from.Trusted {
		if IsSelfIssued(cert) {
			v.roots.AddCert(cert)
		} else {
			v.intermediates.AddCert(cert)
		}
	}
	return v
}

// IsSelfIssued reports whether a certificate names itself as its issuer, which OpenSSL requires of
// trust anchors. That of an authority's new key, which the old key has signed, does not.
func IsSelfIssued(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, c.RawSubject) &&
		(len(c.AuthorityKeyId) == 0 || bytes.Equal(c.AuthorityKeyId, c.SubjectKeyId))
}

// Status returns the status that rejects a request without the required certificate, or 0.
func (v *Verifier) Status(s *tls.ConnectionState) int {
	if len(s.PeerCertificates) == 0 {
		if v.from.Mode == "" {
			return nginxstatus.NoCert
		}
		return 0
	}
	switch v.Verify(s) {
	case "":
		return 0
	case selfSigned, selfSignedAbove, noLocalIssuer, unverifiedLeaf:
		if v.from.Mode == "optional_no_ca" {
			return 0
		}
	}
	return nginxstatus.CertError
}

// Verify returns why the client's certificate is rejected, or "". It verifies once for each
// connection.
func (v *Verifier) Verify(s *tls.ConnectionState) string {
	key := weak.Make(&s.PeerCertificates[0])
	if reason, known := v.verified.Get(key); known {
		return reason
	}
	reason := v.verifyChains(s.PeerCertificates, time.Now())
	v.verified.Add(key, reason)
	return reason
}

// verifyChains verifies a certificate with those that came with it.
func (v *Verifier) verifyChains(certs []*x509.Certificate, now time.Time) string {
	options := x509.VerifyOptions{
		Roots: v.roots, Intermediates: v.intermediates.Clone(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range certs[1:] {
		options.Intermediates.AddCert(c)
	}
	chains, err := certs[0].Verify(options)
	if err != nil {
		return v.opensslReason(err, certs, now)
	}
	reason := ""
	for _, chain := range chains {
		if reason = ChainError(chain, v.from.Depth, v.from.Revocations, now); reason == "" {
			return ""
		}
	}
	if reason == chainTooLong {
		return cmp.Or(v.trustError(certs), reason)
	}
	return reason
}

// ChainError returns why a verified chain is rejected, or "". depth bounds the certificates between
// the first one and the trust anchor. With lists each authority must have a valid one.
func ChainError(chain []*x509.Certificate, depth int, lists []*x509.RevocationList, now time.Time) string {
	if len(chain)-2 > depth {
		return chainTooLong
	}
	if lists == nil {
		return ""
	}
	return crl.Check(lists, chain, now)
}

// opensslReason returns an error of package x509 in OpenSSL's words.
func (v *Verifier) opensslReason(err error, certs []*x509.Certificate, now time.Time) string {
	leaf := certs[0]
	switch {
	case now.Before(leaf.NotBefore):
		return notYetValid
	case now.After(leaf.NotAfter):
		return hasExpired
	}
	if reason := v.trustError(certs); reason != "" {
		return reason
	}
	switch invalid, _ := errors.AsType[x509.CertificateInvalidError](err); invalid.Reason {
	case x509.Expired:
		if invalid.Cert != nil && now.Before(invalid.Cert.NotBefore) {
			return notYetValid
		}
		return hasExpired
	case x509.IncompatibleUsage:
		return unsuitable
	}
	return invalidCA
}

// trustError returns why a certificate does not lead to a trust anchor, or "". As in OpenSSL
// trusted issuers come before those that the client sent, and issuers of trusted certificates are
// trusted.
func (v *Verifier) trustError(certs []*x509.Certificate) string {
	top, trusted := certs[0], slices.ContainsFunc(v.from.Trusted, certs[0].Equal)
	for n := 1; ; n++ {
		if IsSelfIssued(top) {
			switch {
			case trusted:
				return ""
			case v.from.Revocations != nil:
				return crl.Missing
			case n == 1:
				return selfSigned
			}
			return selfSignedAbove
		}
		issuer := issuerOf(top, v.from.Trusted)
		fromClient := issuer == nil && !trusted
		if fromClient {
			issuer = issuerOf(top, certs[1:])
		}
		switch tooLong := n > v.from.Depth && issuer != nil && issuer.IsCA && !IsSelfIssued(issuer); {
		case tooLong && !fromClient, n > len(certs)+len(v.from.Trusted):
			return chainTooLong
		case issuer == nil && trusted:
			return noIssuer
		case issuer == nil && n == 1:
			return unverifiedLeaf
		case issuer == nil, tooLong:
			return noLocalIssuer
		case !issuer.IsCA:
			return invalidCA
		}
		top, trusted = issuer, !fromClient
	}
}

// issuerOf returns the certificate whose name and key identifier match the issuer of c, or nil.
func issuerOf(c *x509.Certificate, among []*x509.Certificate) *x509.Certificate {
	for _, other := range among {
		if bytes.Equal(other.RawSubject, c.RawIssuer) &&
			(len(c.AuthorityKeyId) == 0 || bytes.Equal(c.AuthorityKeyId, other.SubjectKeyId)) {
			return other
		}
	}
	return nil
}
