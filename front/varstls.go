package front

import (
	"crypto/sha1" //nolint:gosec // a certificate's fingerprint, as in nginx
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// tlsModule has variables of TLS and of clients' certificates.
func tlsModule() module {
	return module{variables: func(slot) map[string]knownVariable {
		all := tlsVariables()
		maps.Copy(all, certVariables())
		return all
	}}
}

// tlsVariables are variables of TLS. Without TLS they are empty.
func tlsVariables() map[string]knownVariable {
	of := func(get func(*tls.ConnectionState) string) knownVariable {
		return knownVariable{isReplaceable: true, get: func(x *exchange) string {
			if x.r.TLS == nil {
				return ""
			}
			return get(x.r.TLS)
		}}
	}
	return map[string]knownVariable{
		"ssl_protocol": of(func(s *tls.ConnectionState) string {
			return strings.ReplaceAll(tls.VersionName(s.Version), " ", "v")
		}),
		"ssl_cipher":        of(func(s *tls.ConnectionState) string { return cipherName(s.CipherSuite) }),
		"ssl_curve":         of(func(s *tls.ConnectionState) string { return curveName(s.CurveID) }),
		"ssl_server_name":   of(func(s *tls.ConnectionState) string { return s.ServerName }),
		"ssl_alpn_protocol": of(func(s *tls.ConnectionState) string { return s.NegotiatedProtocol }),
		"ssl_session_reused": of(func(s *tls.ConnectionState) string {
			if s.DidResume {
				return "r"
			}
			return "."
		}),
		"ssl_early_data":    {get: noVariable, isReplaceable: true}, // crypto/tls does not support early data
		"ssl_client_verify": {get: clientVerify, isReplaceable: true},
	}
}

// certVariables are variables of the client's certificate.
func certVariables() map[string]knownVariable {
	const layout = "Jan _2 15:04:05 2006 GMT"
	of := func(get func(*x509.Certificate) string) knownVariable {
		return knownVariable{isReplaceable: true, get: func(x *exchange) string {
			if x.r.TLS == nil || len(x.r.TLS.PeerCertificates) == 0 {
				return ""
			}
			return get(x.r.TLS.PeerCertificates[0])
		}}
	}
	return map[string]knownVariable{
		"ssl_client_s_dn":        of(func(c *x509.Certificate) string { return rfc2253Name(c.RawSubject) }),
		"ssl_client_i_dn":        of(func(c *x509.Certificate) string { return rfc2253Name(c.RawIssuer) }),
		"ssl_client_s_dn_legacy": of(func(c *x509.Certificate) string { return onelineName(c.RawSubject) }),
		"ssl_client_i_dn_legacy": of(func(c *x509.Certificate) string { return onelineName(c.RawIssuer) }),
		"ssl_client_serial": of(func(c *x509.Certificate) string {
			return strings.ToUpper(hex.EncodeToString(c.SerialNumber.Bytes()))
		}),
		"ssl_client_fingerprint": of(func(c *x509.Certificate) string {
			sum := sha1.Sum(c.Raw)
			return hex.EncodeToString(sum[:])
		}),
		"ssl_client_raw_cert": of(certPEM),
		// nginx starts continuation lines with tabs, which are obsolete in fields. Recipients
		// replace such a line fold by a space (RFC 9112, 5.2).
		"ssl_client_cert": of(func(c *x509.Certificate) string {
			return strings.ReplaceAll(strings.TrimSuffix(certPEM(c), "\n"), "\n", " ")
		}),
		"ssl_client_escaped_cert": of(func(c *x509.Certificate) string {
			return strings.ReplaceAll(url.QueryEscape(certPEM(c)), "+", "%20")
		}),
		"ssl_client_v_start": of(func(c *x509.Certificate) string { return c.NotBefore.UTC().Format(layout) }),
		"ssl_client_v_end":   of(func(c *x509.Certificate) string { return c.NotAfter.UTC().Format(layout) }),
		"ssl_client_v_remain": of(func(c *x509.Certificate) string {
			const day = 24 * 60 * 60
			return strconv.FormatInt(max(0, (c.NotAfter.Unix()-time.Now().Unix())/day), 10)
		}),
	}
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

// clientVerify is $ssl_client_verify. It uses the rules of the host, or of the host of the
// handshake.
func clientVerify(x *exchange) string {
	s := x.r.TLS
	switch {
	case s == nil:
		return ""
	case len(s.PeerCertificates) == 0:
		return "NONE"
	}
	v := x.host.certs
	if v == nil {
		v = x.plan.hosts.groupOf(x.r).sniHost(x).host.certs
	}
	reason := "it was not verified"
	switch {
	case v != nil:
		reason = v.verify(s)
	case len(s.VerifiedChains) > 0:
		reason = ""
	}
	if reason != "" {
		return "FAILED:" + reason
	}
	return "SUCCESS"
}
