package nginxconf

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

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
		h := mustParseACME(t, "server { listen 443 ssl; "+c.text+
			" ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }")
		issued := h[0].Listen[0].Issued
		if issued == nil || strings.Join(issued.Names, " ") != c.want || issued.Issuer != "i" {
			t.Errorf("%s: %+v, want %s", c.text, issued, c.want)
		}
	}
}

func mustParseACME(t *testing.T, text string) []conf.Host {
	t.Helper()
	r, err := Parse("nginx.conf", Options{FS: oneFile(inHTTP(issuerI + text)), DefaultPort: 80})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r.Config.Hosts
}

// A server may have files besides, which are served until the certificate exists. A certificate at
// http does not concern servers without TLS.
func TestIssuedCertificateAndFilesOfAServer(t *testing.T) {
	h := mustParseACME(t, `ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
	server { listen 80; }
	server { listen 443 ssl; server_name a.test; acme_certificate i; }
	server { listen 444 ssl; server_name b.test; acme_certificate i;
		ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
		ssl_certificate c.pem; ssl_certificate_key c.key; }`)
	if l := h[0].Listen[0]; l.Issued != nil || l.Certs != nil {
		t.Errorf("a server without TLS has %+v", l)
	}
	if l := h[1].Listen[0]; l.Issued == nil || l.Certs != nil {
		t.Errorf("a server that inherits has %+v", l)
	}
	if l := h[2].Listen[0]; l.Issued == nil || len(l.Certs) != 1 {
		t.Errorf("a server with files has %+v", l)
	}
}

// A certificate that is ordered but not used would be a mistake.
func TestUnusedIssuedCertificateIsReported(t *testing.T) {
	text := inHTTP(issuerI + "server { listen 80; acme_certificate i a.test; }")
	r := testkit.Value(Parse("nginx.conf", Options{FS: oneFile(text)}))(t)
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
	r := testkit.Value(Parse("nginx.conf", Options{FS: fstest.MapFS{"nginx.conf": {Data: []byte(text)}}}))(t)
	want := conf.Issuer{Name: "example", Directory: "https://acme.example.com/directory", Challenge: "http-01",
		Contacts: []string{"mailto:admin@example.test"}, StateDir: "/var/cache/nginx/acme-example", AcceptTerms: true,
		Pos: "nginx.conf:3:2"}
	if got := r.Config.Issuers; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("issuers %+v\nwant %+v", got, want)
	}
	if got := r.Config.Hosts[0].Listen[0].Issued; got == nil || !slices.Equal(got.Names,
		[]string{"www.example.test", "example.test"}) {
		t.Errorf("issued %+v", got)
	}
}
