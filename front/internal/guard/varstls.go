package guard

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

	"github.com/tarehq/tare/front/internal/clientcert"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/grammar"
)

// TLSModule has variables of TLS and of clients' certificates.
func TLSModule() core.Module {
	return core.Module{Variables: func(core.Slot) map[string]core.KnownVariable {
		all := tlsVariables()
		maps.Copy(all, certVariables())
		return all
	}}
}

// tlsVariables are variables of TLS. Without TLS they are empty.
func tlsVariables() map[string]core.KnownVariable {
	of := func(get func(*tls.ConnectionState) string) core.KnownVariable {
		return core.KnownVariable{IsReplaceable: true, Get: func(x *core.Exchange) string {
			if x.Request.TLS == nil {
				return ""
			}
			return get(x.Request.TLS)
		}}
	}
	return map[string]core.KnownVariable{
		"ssl_protocol": of(func(s *tls.ConnectionState) string {
			return strings.ReplaceAll(tls.VersionName(s.Version), " ", "v")
		}),
		"ssl_cipher":        of(func(s *tls.ConnectionState) string { return grammar.CipherName(s.CipherSuite) }),
		"ssl_curve":         of(func(s *tls.ConnectionState) string { return curveName(s.CurveID) }),
		"ssl_server_name":   of(func(s *tls.ConnectionState) string { return s.ServerName }),
		"ssl_alpn_protocol": of(func(s *tls.ConnectionState) string { return s.NegotiatedProtocol }),
		"ssl_session_reused": of(func(s *tls.ConnectionState) string {
			if s.DidResume {
				return "r"
			}
			return "."
		}),
		"ssl_early_data":    {Get: core.NoVariable, IsReplaceable: true}, // crypto/tls does not support early data
		"ssl_client_verify": {Get: clientVerify, IsReplaceable: true},
	}
}

func certVariables() map[string]core.KnownVariable {
	const layout = "Jan _2 15:04:05 2006 GMT"
	of := func(get func(*x509.Certificate) string) core.KnownVariable {
		return core.KnownVariable{IsReplaceable: true, Get: func(x *core.Exchange) string {
			if x.Request.TLS == nil || len(x.Request.TLS.PeerCertificates) == 0 {
				return ""
			}
			return get(x.Request.TLS.PeerCertificates[0])
		}}
	}
	return map[string]core.KnownVariable{
		"ssl_client_s_dn":        of(func(c *x509.Certificate) string { return clientcert.Rfc2253Name(c.RawSubject) }),
		"ssl_client_i_dn":        of(func(c *x509.Certificate) string { return clientcert.Rfc2253Name(c.RawIssuer) }),
		"ssl_client_s_dn_legacy": of(func(c *x509.Certificate) string { return clientcert.OnelineName(c.RawSubject) }),
		"ssl_client_i_dn_legacy": of(func(c *x509.Certificate) string { return clientcert.OnelineName(c.RawIssuer) }),
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

// clientVerify is $ssl_client_verify. It uses the rules of the host, or of the host of the
// handshake.
func clientVerify(x *core.Exchange) string {
	s := x.Request.TLS
	switch {
	case s == nil:
		return ""
	case len(s.PeerCertificates) == 0:
		return "NONE"
	}
	v := x.Host.Certs
	if v == nil {
		host, _ := x.Plan.Hosts.GroupOf(x.Request).SniHost(x)
		v = host.Certs
	}
	reason := "it was not verified"
	switch {
	case v != nil:
		reason = v.Verify(s)
	case len(s.VerifiedChains) > 0:
		reason = ""
	}
	if reason != "" {
		return "FAILED:" + reason
	}
	return "SUCCESS"
}
