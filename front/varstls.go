package front

import (
	"crypto/sha1" //nolint:gosec // a certificate's fingerprint, as in nginx
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// tlsVariable returns a variable of TLS. Without TLS it is empty.
func tlsVariable(name string) (variable, bool) {
	if name == "ssl_client_verify" {
		return clientVerify, true
	}
	of := connectionVariable(name)
	if of == nil {
		of = clientVariable(name)
	}
	if of == nil {
		return nil, false
	}
	return func(x *exchange) string {
		if x.r.TLS == nil {
			return ""
		}
		return of(x.r.TLS)
	}, true
}

// connectionVariable returns a variable of the TLS connection.
func connectionVariable(name string) func(*tls.ConnectionState) string {
	switch name {
	case "ssl_protocol":
		return func(s *tls.ConnectionState) string { return strings.ReplaceAll(tls.VersionName(s.Version), " ", "v") }
	case "ssl_cipher":
		return func(s *tls.ConnectionState) string { return cipherName(s.CipherSuite) }
	case "ssl_curve":
		return func(s *tls.ConnectionState) string { return curveName(s.CurveID) }
	case "ssl_server_name":
		return func(s *tls.ConnectionState) string { return s.ServerName }
	case "ssl_alpn_protocol":
		return func(s *tls.ConnectionState) string { return s.NegotiatedProtocol }
	case "ssl_session_reused":
		return func(s *tls.ConnectionState) string {
			if s.DidResume {
				return "r"
			}
			return "."
		}
	}
	return nil
}

// clientVariable returns a variable of the client's certificate.
func clientVariable(name string) func(*tls.ConnectionState) string {
	what, ok := strings.CutPrefix(name, "ssl_client_")
	if !ok {
		return nil
	}
	of := certVariable(what)
	if of == nil {
		return nil
	}
	return func(s *tls.ConnectionState) string {
		if len(s.PeerCertificates) == 0 {
			return ""
		}
		return of(s.PeerCertificates[0])
	}
}

func certVariable(what string) func(*x509.Certificate) string {
	const layout = "Jan _2 15:04:05 2006 GMT"
	switch what {
	case "s_dn":
		return func(c *x509.Certificate) string { return rfc2253Name(c.RawSubject) }
	case "i_dn":
		return func(c *x509.Certificate) string { return rfc2253Name(c.RawIssuer) }
	case "s_dn_legacy":
		return func(c *x509.Certificate) string { return onelineName(c.RawSubject) }
	case "i_dn_legacy":
		return func(c *x509.Certificate) string { return onelineName(c.RawIssuer) }
	case "serial":
		return func(c *x509.Certificate) string { return strings.ToUpper(hex.EncodeToString(c.SerialNumber.Bytes())) }
	case "fingerprint":
		return func(c *x509.Certificate) string {
			sum := sha1.Sum(c.Raw)
			return hex.EncodeToString(sum[:])
		}
	case "raw_cert":
		return certPEM
	// nginx starts continuation lines with tabs, which are obsolete in fields. Recipients replace
	// such a line fold by a space (RFC 9112, 5.2).
	case "cert":
		return func(c *x509.Certificate) string {
			return strings.ReplaceAll(strings.TrimSuffix(certPEM(c), "\n"), "\n", " ")
		}
	case "escaped_cert":
		return func(c *x509.Certificate) string { return strings.ReplaceAll(url.QueryEscape(certPEM(c)), "+", "%20") }
	case "v_start":
		return func(c *x509.Certificate) string { return c.NotBefore.UTC().Format(layout) }
	case "v_end":
		return func(c *x509.Certificate) string { return c.NotAfter.UTC().Format(layout) }
	case "v_remain":
		return func(c *x509.Certificate) string {
			const day = 24 * 60 * 60
			return strconv.FormatInt(max(0, (c.NotAfter.Unix()-time.Now().Unix())/day), 10)
		}
	}
	return nil
}

func certPEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// curveName returns OpenSSL's name of the key exchange group.
func curveName(id tls.CurveID) string {
	switch id {
	case 0:
		return ""
	case tls.CurveP256:
		return "prime256v1"
	case tls.CurveP384:
		return "secp384r1"
	case tls.CurveP521:
		return "secp521r1"
	}
	return id.String()
}

// cipherName returns OpenSSL's name of a cipher suite. Those of TLS 1.3 have the same names
// everywhere.
func cipherName(id uint16) string {
	name := tls.CipherSuiteName(id)
	if !strings.Contains(name, "_WITH_") {
		return name
	}
	name = strings.TrimPrefix(name, "TLS_")
	name = strings.TrimPrefix(name, "RSA_WITH_")
	name = strings.Replace(name, "_WITH_", "_", 1)
	name = strings.Replace(name, "AES_", "AES", 1)
	name = strings.Replace(name, "_POLY1305_SHA256", "_POLY1305", 1)
	name = strings.Replace(name, "_CBC", "", 1)
	name = strings.Replace(name, "3DES_EDE", "DES_CBC3", 1)
	return strings.ReplaceAll(name, "_", "-")
}
