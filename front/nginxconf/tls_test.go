package nginxconf

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/conf"
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
		ids, _ := selectCiphers(text)
		testkit.Equal(t, cipherNames(ids), want, text)
	}
	_, unknown := selectCiphers("ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:!DHE-DSS-AES128-SHA:HIGH")
	testkit.Equal(t, unknown, []string{"DHE-RSA-AES128-GCM-SHA256"})
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
		access := r.Config.Hosts[0].Defaults.Access
		testkit.Equal(t, len(access) == 1 && access[0].Deny, guarded, text)
	}
}

// A trusted certificate that is not self-signed is not a trust anchor: the chain continues to one
// that is.
func TestVerifyDepthCountsUpToSelfSigned(t *testing.T) {
	issue := func(name string, by *testkit.Issued) *testkit.Issued {
		return testkit.Issue(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true,
			BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, by)
	}
	first := issue("root", nil)
	second := issue("between", first)
	root, between, leaf := first.Certificate, second.Certificate, issue("leaf", second).Certificate
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
		err := chains(s, "proxy_ssl_verify_depth", test.trusted, nil)(state)
		testkit.Equal(t, err == nil, test.ok, "depth", test.most, "with", len(test.trusted), "trusted:", err)
	}
}

const issuerI = "acme_issuer i { uri https://ca.test/dir; }\n"

// The names of a certificate are those of the server, or those that are listed.
func TestNamesOfIssuedCertificates(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"server_name A.test b.test; acme_certificate i;", "a.test b.test"},
		{"server_name .c.test; acme_certificate i;", "www.c.test c.test"},
		{"server_name a.test ~x _ \"\" www.a.test; server_name a.test b.test; acme_certificate i;", "a.test www.a.test b.test"},
		{"server_name a.test; acme_certificate i key=rsa:3072 10.0.0.1 ::1 z.test;", "10.0.0.1 ::1 z.test"},
		{"server_name 0:0::0:1 [2001:DB8::1]; acme_certificate i;", "::1 2001:db8::1"},
	} {
		r := parsed(t, inHTTP(issuerI+"server { listen 443 ssl; "+c.text+
			" ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }"), Options{})
		issued := r.Config.Hosts[0].Listen[0].Issued
		if issued == nil || strings.Join(issued.Names, " ") != c.want || issued.Issuer != "i" {
			t.Errorf("%s: %+v, want %s", c.text, issued, c.want)
		}
	}
}

// A server may have files besides, which are served until the certificate exists. A certificate at
// http does not concern servers without TLS.
func TestIssuedCertificateAndFilesOfAServer(t *testing.T) {
	h := parsed(t, inHTTP(issuerI+`ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
	server { listen 80; }
	server { listen 443 ssl; server_name a.test; acme_certificate i; }
	server { listen 444 ssl; server_name b.test; acme_certificate i;
		ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
		ssl_certificate c.pem; ssl_certificate_key c.key; }`), Options{}).Config.Hosts
	for i, want := range []string{"false 0", "true 0", "true 1"} {
		l := h[i].Listen[0]
		testkit.Equal(t, fmt.Sprint(l.Issued != nil, len(l.Certs)), want, "issued, and from files, by server", i)
	}
}

// A certificate that is ordered but not used would be a mistake.
func TestUnusedIssuedCertificateIsReported(t *testing.T) {
	r := parsed(t, inHTTP(issuerI+"server { listen 80; acme_certificate i a.test; }"), Options{})
	if !slices.ContainsFunc(r.Warnings, func(m Message) bool { return strings.Contains(m.Text, "not used") }) ||
		r.Config.Hosts[0].Listen[0].Issued != nil {
		t.Errorf("warnings %v", r.Warnings)
	}
}

// The example of nginx's documentation has the meaning that it has there.
func TestExampleOfNginxIsAccepted(t *testing.T) {
	const text = `events {} http {
	resolver 127.0.0.1:53;
	acme_issuer example {
		uri https://acme.example.com/directory; contact admin@example.test;
		state_path /var/cache/nginx/acme-example; accept_terms_of_service;
	}
	acme_shared_zone zone=ngx_acme_shared:1M;
	server {
		listen 443 ssl; server_name .example.test; acme_certificate example;
		ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
		ssl_certificate_cache max=2;
	}
	server { listen 80; location / { return 404; } }
}`
	r := parsed(t, text, Options{})
	want := conf.Issuer{Name: "example", Directory: "https://acme.example.com/directory", Challenge: "http-01",
		Contacts: []string{"mailto:admin@example.test"}, StateDir: "/var/cache/nginx/acme-example", AcceptTerms: true,
		Pos: "nginx.conf:3:2"}
	testkit.Equal(t, r.Config.Issuers, []conf.Issuer{want})
	testkit.Equal(t, r.Config.Hosts[0].Listen[0].Issued.Names, []string{"www.example.test", "example.test"})
}
