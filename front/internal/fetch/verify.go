package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/internal/hostname"
)

// verifyUpstream verifies an upstream's certificates, and that they are valid for name. Chains may
// have other intermediate certificates.
func verifyUpstream(certs, intermediates []*x509.Certificate, roots *x509.CertPool,
	name string) ([][]*x509.Certificate, error) {
	switch {
	case len(certs) == 0:
		return nil, errors.New("the upstream sent no certificate")
	case name == "": // x509 would not check the name
		return nil, errors.New("no name to verify the upstream's certificate for: set proxy_ssl_name")
	}
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range slices.Concat(certs[1:], intermediates) {
		o.Intermediates.AddCert(c)
	}
	chains, err := certs[0].Verify(o)
	if err == nil {
		err = certs[0].VerifyHostname(name)
		if err == nil && matchesTopLevelWildcard(certs[0], name) {
			err = x509.HostnameError{Certificate: certs[0], Host: name}
		}
		if err != nil && hasCommonName(certs[0], name) && !hasNameConstraints(chains) {
			err = nil
		}
	}
	if err != nil {
		return nil, &tls.CertificateVerificationError{UnverifiedCertificates: certs, Err: err}
	}
	return chains, nil
}

// matchesTopLevelWildcard reports whether a certificate is valid for a name only by a name such as
// *.com. nginx follows OpenSSL's rule, which requires two labels after the star. Package x509 does
// not.
func matchesTopLevelWildcard(c *x509.Certificate, name string) bool {
	name = strings.TrimSuffix(name, ".")
	return strings.Count(name, ".") == 1 &&
		!slices.ContainsFunc(c.DNSNames, func(own string) bool { return strings.EqualFold(own, name) })
}

// hasCommonName reports whether a certificate without DNS names has the name as a common name (RFC
// 2818, 3.1), which nginx accepts. Package x509 and browsers no longer do. Certificates of internal
// authorities often have nothing else.
func hasCommonName(c *x509.Certificate, name string) bool {
	if len(c.DNSNames) > 0 || len(c.IPAddresses) > 0 && strings.Trim(name, "0123456789.") == "" {
		return false
	}
	commonName := asn1.ObjectIdentifier{2, 5, 4, 3}
	for _, attribute := range c.Subject.Names {
		if value, ok := attribute.Value.(string); ok && attribute.Type.Equal(commonName) &&
			matchesCommonName(value, name) {
			return true
		}
	}
	return false
}

// matchesCommonName compares without regard to the case of ASCII letters. A star stands for the
// whole first label, and at least two labels must follow.
func matchesCommonName(commonName, name string) bool {
	parent, wild := strings.CutPrefix(commonName, "*.")
	if bare, ok := hostname.Parse(parent); !ok || bare == "" || len(bare) != len(parent) {
		return false
	}
	parent, name = hostname.LowerASCII(parent), hostname.LowerASCII(name)
	if !wild {
		return name == parent
	}
	label, rest, _ := strings.Cut(name, ".")
	return label != "" && label != "*" && strings.Contains(parent, ".") && rest == parent
}

// hasNameConstraints reports whether an authority of any chain is restricted to some names. Package
// x509 does not apply that to common names.
func hasNameConstraints(chains [][]*x509.Certificate) bool {
	return slices.ContainsFunc(slices.Concat(chains...), func(c *x509.Certificate) bool {
		return len(c.PermittedDNSDomains)+len(c.ExcludedDNSDomains)+len(c.PermittedIPRanges)+len(c.ExcludedIPRanges) > 0
	})
}
