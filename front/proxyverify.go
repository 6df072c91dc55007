package front

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"slices"
	"strings"
)

// verify verifies the certificates that an upstream shows, and that they are for a name.
func verifyUpstream(certs []*x509.Certificate, roots *x509.CertPool, name string) ([][]*x509.Certificate, error) {
	switch {
	case len(certs) == 0:
		return nil, errors.New("the upstream has no certificate")
	case name == "": // package x509 would verify none
		return nil, errors.New("there is no name to verify the upstream's certificate for: set proxy_ssl_name")
	}
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range certs[1:] {
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

// matchesWholeDomain reports whether a name is that of a certificate only because the certificate has a name such as *.com. nginx, whose
// rule is that of OpenSSL, wants two labels behind the star. Package x509 does not.
func matchesTopLevelWildcard(c *x509.Certificate, name string) bool {
	name = strings.TrimSuffix(name, ".")
	return strings.Count(name, ".") == 1 && !slices.ContainsFunc(c.DNSNames, func(own string) bool { return strings.EqualFold(own, name) })
}

// hasCommonName reports whether a certificate without a DNS name has one of its common names for a name, as RFC 2818, 3.1 has it and nginx
// takes it. Package x509 no longer looks at those, which browsers do not either; certificates inside a company often have nothing else.
func hasCommonName(c *x509.Certificate, name string) bool {
	if len(c.DNSNames) > 0 || len(c.IPAddresses) > 0 && strings.Trim(name, "0123456789.") == "" {
		return false
	}
	commonName := asn1.ObjectIdentifier{2, 5, 4, 3}
	for _, attribute := range c.Subject.Names {
		if value, ok := attribute.Value.(string); ok && attribute.Type.Equal(commonName) && matchesCommonName(value, name) {
			return true
		}
	}
	return false
}

// matchesCommonName compares without regard to the case of ASCII letters. A star is the whole of the first label, before two others at least.
func matchesCommonName(commonName, name string) bool {
	parent, wild := strings.CutPrefix(commonName, "*.")
	if bare, ok := hostName(parent); !ok || bare == "" || len(bare) != len(parent) {
		return false
	}
	parent, name = lowerASCII(parent), lowerASCII(name)
	if !wild {
		return name == parent
	}
	label, rest, _ := strings.Cut(name, ".")
	return label != "" && label != "*" && strings.Contains(parent, ".") && rest == parent
}

// constrained reports whether an authority of any chain may certify some names only. Package x509 looks at no common name for that.
func hasNameConstraints(chains [][]*x509.Certificate) bool {
	return slices.ContainsFunc(slices.Concat(chains...), func(c *x509.Certificate) bool {
		return len(c.PermittedDNSDomains)+len(c.ExcludedDNSDomains)+len(c.PermittedIPRanges)+len(c.ExcludedIPRanges) > 0
	})
}
