// Package crl parses certificate revocation lists, and looks up certificates in them as OpenSSL
// does.
package crl

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Reasons why a certificate is rejected, in OpenSSL's words.
const (
	Revoked     = "certificate revoked"
	Missing     = "unable to get certificate CRL"
	Expired     = "CRL has expired"
	NotYetValid = "CRL is not yet valid"
)

// Check looks up the certificates of a chain, each in the lists of the one after it. The last one
// is a trust anchor, and has issued itself. Each needs a valid list. Check returns a reason, or "".
// As with OpenSSL it is that of the last certificate with one.
func Check(lists []*x509.RevocationList, chain []*x509.Certificate, now time.Time) (reason string) {
	for i, c := range chain {
		reason = cmp.Or(check(lists, c, chain[min(i+1, len(chain)-1)], now), reason)
	}
	return reason
}

// check looks up a certificate in its issuer's lists, of which one must be valid.
func check(lists []*x509.RevocationList, c, issuer *x509.Certificate, now time.Time) string {
	reason := Missing
	for _, list := range lists {
		if !bytes.Equal(list.RawIssuer, c.RawIssuer) || list.CheckSignatureFrom(issuer) != nil {
			continue
		}
		for i := range list.RevokedCertificateEntries {
			if list.RevokedCertificateEntries[i].SerialNumber.Cmp(c.SerialNumber) == 0 {
				return Revoked
			}
		}
		switch {
		case reason == "":
		case now.Before(list.ThisUpdate):
			reason = NotYetValid
		case !list.NextUpdate.IsZero() && now.After(list.NextUpdate):
			reason = Expired
		default:
			reason = ""
		}
	}
	return reason
}

// Parse parses a list in DER. Package x509 parses version 2; "openssl ca -gencrl" writes version 1
// unless crl_extensions is configured.
func Parse(der []byte) (*x509.RevocationList, error) {
	list, err := x509.ParseRevocationList(der)
	if err == nil {
		if slices.ContainsFunc(list.Extensions, isCritical) {
			return nil, errPartial
		}
		for i := range list.RevokedCertificateEntries {
			if slices.ContainsFunc(list.RevokedCertificateEntries[i].Extensions, isCritical) {
				return nil, errEntryExtension
			}
		}
		return list, nil
	}
	var first firstVersion
	if rest, firstErr := asn1.Unmarshal(der, &first); firstErr != nil || len(rest) > 0 {
		return nil, err
	}
	if len(first.List.Extensions) > 0 {
		return nil, errFirstExtensions
	}
	algorithm := signatureAlgorithm(first.Algorithm.Algorithm.String())
	if algorithm == x509.UnknownSignatureAlgorithm {
		return nil, fmt.Errorf("unsupported signature algorithm %s", first.Algorithm.Algorithm)
	}
	list = &x509.RevocationList{
		Raw: der, RawTBSRevocationList: first.List.Raw, RawIssuer: first.List.Issuer.FullBytes,
		SignatureAlgorithm: algorithm, Signature: first.Signature.RightAlign(),
		ThisUpdate: first.List.ThisUpdate, NextUpdate: first.List.NextUpdate,
	}
	for _, c := range first.List.Revoked {
		if len(c.Extensions) > 0 {
			return nil, errFirstExtensions
		}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: c.RevocationTime})
	}
	return list, nil
}

// Extensions may restrict what a list is about, and are critical then (RFC 5280, 5.2.4 and 5.2.5). A
// list that is taken for a complete one would make revoked certificates valid.
var (
	errPartial         = errors.New("delta and partial revocation lists are not supported (use complete ones)")
	errEntryExtension  = errors.New("unsupported critical extension of an entry")
	errFirstExtensions = errors.New("a list of version 1 must not have extensions")
)

func isCritical(e pkix.Extension) bool { return e.Critical }

// firstVersion is a CertificateList of version 1 (RFC 5280, 5.1): without a version and extensions.
type firstVersion struct {
	List struct {
		Raw        asn1.RawContent
		Algorithm  pkix.AlgorithmIdentifier
		Issuer     asn1.RawValue
		ThisUpdate time.Time
		NextUpdate time.Time                 `asn1:"optional"`
		Revoked    []pkix.RevokedCertificate `asn1:"optional"`
		Extensions []pkix.Extension          `asn1:"optional,explicit,tag:0"` // must be empty
	}
	Algorithm pkix.AlgorithmIdentifier
	Signature asn1.BitString
}

func signatureAlgorithm(id string) x509.SignatureAlgorithm {
	return map[string]x509.SignatureAlgorithm{
		"1.2.840.113549.1.1.11": x509.SHA256WithRSA, "1.2.840.113549.1.1.12": x509.SHA384WithRSA,
		"1.2.840.113549.1.1.13": x509.SHA512WithRSA, "1.2.840.10045.4.3.2": x509.ECDSAWithSHA256,
		"1.2.840.10045.4.3.3": x509.ECDSAWithSHA384, "1.2.840.10045.4.3.4": x509.ECDSAWithSHA512,
		"1.3.101.112": x509.PureEd25519,
	}[id]
}
