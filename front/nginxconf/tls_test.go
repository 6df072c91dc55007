package nginxconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
	"github.com/tarehq/tare/internal/testkit"
)

func cipherNames(ids []uint16) string {
	var names []string
	for _, s := range suites() {
		if slices.Contains(ids, s.id) {
			names = append(names, s.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Every TLS 1.2 suite of crypto/tls has a unique name.
func TestSuitesHaveUniqueNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range suites() {
		if seen[s.name] || strings.Contains(s.name, "_") || strings.HasSuffix(s.name, "-") {
			t.Errorf("%s has the name %q", tls.CipherSuiteName(s.id), s.name)
		}
		seen[s.name] = true
	}
}

func TestCipherListsAreTranslated(t *testing.T) {
	safe := "ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES128-SHA ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-AES256-SHA ECDHE-ECDSA-CHACHA20-POLY1305 " +
		"ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES128-SHA ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-AES256-SHA ECDHE-RSA-CHACHA20-POLY1305"
	for text, want := range map[string]string{
		"HIGH:!aNULL:!MD5":            safe,
		"ALL":                         safe,
		"ECDHE-RSA-AES128-GCM-SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
		"EECDH+AESGCM:EDH+AESGCM":     "ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES256-GCM-SHA384",
		"HIGH:!AESGCM:-SHA1":          "ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-RSA-CHACHA20-POLY1305",
		"ECDHE+AES128:!aECDSA:+SHA1":  "ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES128-SHA",
		// by name, insecure ones are allowed
		"AES128-SHA, DES-CBC3-SHA":            "AES128-SHA DES-CBC3-SHA",
		"RC4:MEDIUM":                          "",
		"ECDHE-RSA-AES128-GCM-SHA256:!ECDHE":  "",
		"DHE-RSA-AES128-GCM-SHA256:@STRENGTH": "",
	} {
		if ids, _ := selectCiphers(text); cipherNames(ids) != want {
			t.Errorf("%s is %s; want %s", text, cipherNames(ids), want)
		}
	}
	if _, unknown := selectCiphers("ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:!DHE-DSS-AES128-SHA:HIGH"); !slices.Equal(unknown, []string{"DHE-RSA-AES128-GCM-SHA256"}) {
		t.Errorf("unknown suites: %q", unknown)
	}
}

func TestInvalidTLSSettingsAreErrors(t *testing.T) {
	fsys := withCertificate(t, fstest.MapFS{
		"bad.pem": {Data: []byte("nothing")},
		"crl.pem": {Data: []byte("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")},
	})
	cert := fsys["c.pem"].Data
	fsys["half.pem"] = &fstest.MapFile{Data: slices.Concat(cert, cert[:len(cert)/2])}
	for text, want := range map[string]string{
		"ssl_verify_client on;":                                                `directive "ssl_verify_client": ssl_client_certificate is required to verify clients`,
		"ssl_verify_client on; ssl_client_certificate bad.pem;":                `directive "ssl_client_certificate": no PEM certificate in "bad.pem"`,
		"ssl_verify_client on; ssl_client_certificate half.pem;":               `directive "ssl_client_certificate": "half.pem": a PEM block is malformed or cut off`,
		"ssl_verify_client on; ssl_client_certificate no.pem;":                 `directive "ssl_client_certificate": open no.pem: file does not exist`,
		"ssl_verify_client optional_no_ca; ssl_trusted_certificate no.pem;":    `directive "ssl_trusted_certificate": open no.pem: file does not exist`,
		"ssl_protocols SSLv3;":                                                 `directive "ssl_protocols": no supported version (use TLSv1.2 or TLSv1.3)`,
		"ssl_ciphers RC4;":                                                     `directive "ssl_ciphers": crypto/tls supports none of these (examples: HIGH, ECDHE-RSA-AES128-GCM-SHA256)`,
		"ssl_protocols TLSv1.3; ssl_ciphers RC4;":                              "",
		"ssl_verify_client off; ssl_client_certificate c.pem;":                 "",
		"ssl_verify_client on; ssl_client_certificate c.pem; ssl_crl bad.pem;": `directive "ssl_crl": no PEM revocation list in "bad.pem"`,
		"ssl_verify_client on; ssl_client_certificate c.pem; ssl_crl crl.pem;": `directive "ssl_crl": "crl.pem": x509: malformed crl`,
		"ssl_verify_client on; ssl_client_certificate c.pem; ssl_crl no.pem;":  `directive "ssl_crl": open no.pem: file does not exist`,
	} {
		fsys["nginx.conf"] = &fstest.MapFile{Data: []byte(inHTTP(
			"server { listen 443 ssl; ssl_certificate c.pem; ssl_certificate_key c.key; " + text + "}"))}
		_, err := Parse("nginx.conf", Options{FS: fsys})
		got := ""
		if err != nil {
			_, got, _ = strings.Cut(err.Error(), ":3: ")
		}
		testkit.Equal(t, got, want, text)
	}
}

// OCSP is not supported. If it is required, all access is denied.
func TestLenientOCSPClosesServer(t *testing.T) {
	fsys := withCertificate(t, fstest.MapFS{})
	for text, guarded := range map[string]bool{
		"ssl_ocsp on; ssl_verify_client on; ssl_client_certificate c.pem;":         true,
		"ssl_ocsp leaf; ssl_verify_client optional; ssl_client_certificate c.pem;": true,
		"ssl_ocsp off; ssl_verify_client on; ssl_client_certificate c.pem;":        false,
		"ssl_ocsp on;": true, // another host of the address may verify clients
	} {
		fsys["nginx.conf"] = &fstest.MapFile{Data: []byte(inHTTP(
			"server { listen 443 ssl; ssl_certificate c.pem; ssl_certificate_key c.key; " + text + "}"))}
		r := testkit.Value(Parse("nginx.conf", Options{FS: fsys, Lenient: true}))(t)
		if access := r.Config.Hosts[0].Defaults.Access; (len(access) == 1 && access[0].Deny) != guarded {
			t.Errorf("%s: %v", text, access)
		}
	}
}

// A trusted certificate that is not self-signed is not a trust anchor: the chain continues to one
// that is.
func TestVerifyDepthCountsUpToSelfSigned(t *testing.T) {
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	issue := func(name string, by *x509.Certificate) *x509.Certificate {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign,
		}
		if by == nil {
			by = template
		}
		der := testkit.Value(x509.CreateCertificate(rand.Reader, template, by, key.Public(), key))(t)
		return testkit.Value(x509.ParseCertificate(der))(t)
	}
	root := issue("root", nil)
	between := issue("between", root)
	leaf := issue("leaf", between)
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf},
		VerifiedChains: [][]*x509.Certificate{{leaf, between}}}
	for _, test := range []struct {
		most    string
		trusted []*x509.Certificate
		ok      bool
	}{
		{"0", []*x509.Certificate{root, between}, false}, {"1", []*x509.Certificate{root, between}, true},
		{"1", []*x509.Certificate{between}, false},
	} {
		s := newScope(nil, levelServer, []*syntax.Directive{{Name: "proxy_ssl_verify_depth", Args: []string{test.most}}})
		if err := chains(s, "proxy_ssl_verify_depth", test.trusted, nil)(state); (err == nil) != test.ok {
			t.Errorf("depth %s, %d trusted: %v", test.most, len(test.trusted), err)
		}
	}
}
