package nginxconf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/internal/testkit"
)

// A listen with quic is left out entirely: its address does not accept TCP, and never without TLS.
func TestListenWithQUICDoesNotAcceptTCP(t *testing.T) {
	text := inHTTP(`server { listen 81; listen 8443 quic reuseport; listen 81 quic; listen [::]:8443 quic; http3 on; location / { empty_gif; } }
		server { listen 8444 quic; server_name only; location / { empty_gif; } }`)
	r := parsed(t, text, Options{Lenient: true})
	if len(r.Process.Listeners) != 1 || r.Process.Listeners[0].Addr != "*:81" {
		t.Errorf("%+v", r.Process.Listeners)
	}
	for _, h := range r.Config.Hosts {
		for _, l := range h.Listen {
			testkit.Equal(t, l.Addr, "*:81", h.Names)
		}
		testkit.Between(t, len(h.Listen), 1, 2, "addresses of", h.Names, "which else listens at every one")
	}
	if _, err := parse(text, Options{}); err == nil ||
		strings.Count(err.Error(), `parameter "quic" is not supported`) != 4 ||
		strings.Count(err.Error(), "this program was built without HTTP/3") != 5 {
		t.Errorf("%v", err)
	}
}

// With HTTP3 the addresses of UDP are separate from those of TCP, each with its default server and
// settings.
func TestQUICAddressesAreSeparate(t *testing.T) {
	text := inHTTP(`ssl_certificate c; ssl_certificate_key k;
		server { listen 443 ssl; listen 443 quic reuseport; http2 on; server_name a; location / { empty_gif; } }
		server { listen 443 ssl default_server; listen 443 quic; listen [::1]:443 quic; http3 off; server_name b;
			quic_retry on; http3_max_concurrent_streams 7; http3_stream_buffer_size 10k; location / { empty_gif; } }
		server { listen 127.0.0.1:443 quic; server_name c; http3_max_concurrent_streams 5; location / { empty_gif; } }`)
	r := parsed(t, text, Options{HTTP3: true})
	type settings struct {
		retry   bool
		streams int
		window  int64
	}
	want := map[string]settings{"*:443": {}, "quic:*:443": {streams: 128, window: 64 << 10},
		"quic:[::1]:443": {true, 7, 10 << 10}, "quic:127.0.0.1:443": {streams: 5, window: 64 << 10}}
	for i := range r.Process.Listeners {
		l := &r.Process.Listeners[i]
		got := settings{l.HTTP3Retry, l.HTTP3Streams, l.HTTP3Window}
		if s, ok := want[l.Addr]; !ok || s != got || !l.TLS || l.HTTP2 != (l.Addr == "*:443") {
			t.Errorf("%s: %+v", l.Addr, l)
		}
		delete(want, l.Addr)
	}
	testkit.Equal(t, len(want), 0, "missing:", want)
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0].Text, "are those of quic:*:443") {
		t.Errorf("warnings: %v", r.Warnings)
	}
	for _, h := range r.Config.Hosts {
		for _, l := range h.Listen {
			want := strings.HasPrefix(l.Addr, "quic:") && h.Names[0] != "b"
			testkit.Equal(t, l.HTTP3, want, h.Names[0], "at", l.Addr, "HTTP/3")
		}
	}
}

// book resolves given names. It counts lookups.
type book struct {
	names   map[string]string
	lookups map[string]int
}

func (b *book) lookup(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if _, ok := ctx.Deadline(); !ok || network != "ip" {
		return nil, errors.New("lookup of " + network + ", or without a deadline")
	}
	b.lookups[host]++
	addresses, ok := b.names[host]
	if !ok {
		return nil, errors.New("no such host")
	}
	var addrs []netip.Addr
	for word := range strings.FieldsSeq(addresses) {
		addrs = append(addrs, netip.MustParseAddr(word))
	}
	return addrs, nil
}

func newBook(names map[string]string) *book {
	return &book{names: names, lookups: make(map[string]int)}
}

// listening returns the addresses of a configuration's sockets.
func listening(b *book, text string) (addrs []string, err error) {
	r, err := parse(inHTTP(text), Options{LookupNetIP: b.lookup})
	if err != nil {
		return nil, err
	}
	for _, l := range r.Process.Listeners {
		addrs = append(addrs, l.Addr)
	}
	return addrs, nil
}

func TestNamesOfListenAreResolved(t *testing.T) {
	b := newBook(map[string]string{
		"localhost": "::1 ::ffff:127.0.0.1 127.0.0.1", "many.test": "10.0.0.2 10.0.0.1 ::1", "one.test": "10.0.0.1",
		"any.test": "0.0.0.0", "none.test": "",
		"lots.test": strings.Repeat("10.0.0.1 ", maxAddresses+1),
	})
	for text, want := range map[string]string{
		"listen localhost:81":                             "127.0.0.1:81 [::1]:81",
		"listen LocalHost":                                "127.0.0.1:80 [::1]:80",
		"listen many.test:82":                             "10.0.0.1:82 10.0.0.2:82 [::1]:82",
		"listen any.test:83":                              "*:83",
		"listen lots.test":                                "10.0.0.1:80",
		"listen one.test:84; listen one.test:85":          "10.0.0.1:84 10.0.0.1:85",
		"listen 86; } server { listen one.test:86":        "*:86 10.0.0.1:86",
		"listen many.test; } server { listen one.test:80": "10.0.0.1:80 10.0.0.2:80 [::1]:80",
	} {
		got := testkit.Value(listening(b, "server { "+text+"; }"))(t)
		testkit.Equal(t, strings.Join(got, " "), want, text)
	}
	for text, want := range map[string]string{
		"listen nosuch.test:80":                      `nginx.conf:4: directive "listen": "nosuch.test:80": cannot resolve the name: no such host`,
		"listen none.test":                           "has no addresses",
		"listen one.test:80; listen 10.0.0.1:80":     "duplicate address 10.0.0.1:80",
		"listen 256.0.0.1":                           "neither an IP address nor a name",
		"listen $host:80":                            "must be an IP address",
		"listen one.test:80; listen one.test:80":     "duplicate",
		"listen many.test:80; listen one.test:80":    "duplicate address 10.0.0.1:80",
		"listen one.test:80 nosuch":                  `unknown parameter "nosuch"`,
		"listen " + strings.Repeat("a", 300) + ":80": "must be an IP address",
	} {
		testkit.Fails(listening(b, "server {\n"+text+"; }"))(t, want, text)
	}
	testkit.Equal(t, b.lookups["256.0.0.1"]+b.lookups["$host"], 0, "unexpected lookups")
}

// Names are resolved for each Parse, and once in each.
func TestNamesAreResolvedByEachParse(t *testing.T) {
	b := newBook(map[string]string{"a.test": "10.0.0.1"})
	const text = "server { listen a.test:81; listen A.test:82; }"
	for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		b.names["a.test"] = addr
		clear(b.lookups)
		testkit.Equal(t, testkit.Value(listening(b, text))(t), []string{addr + ":81", addr + ":82"})
		testkit.Equal(t, b.lookups["a.test"], 1, "lookups")
	}
}

func TestParametersApplyToAllAddressesOfAName(t *testing.T) {
	r := parsed(t, inHTTP("server { listen 10.0.0.1:81; server_name a; } server { listen a.test:81 default_server backlog=7; server_name b; }"),
		Options{LookupNetIP: newBook(map[string]string{"a.test": "10.0.0.1 10.0.0.2"}).lookup})
	for _, l := range r.Process.Listeners {
		if !l.Default || l.Backlog != 7 {
			t.Errorf("%+v; want the default server's backlog", l.Listen)
		}
	}
	if hosts := r.Config.Hosts; len(r.Process.Listeners) != 2 || hosts[0].Listen[0].Default ||
		!hosts[1].Listen[0].Default || !hosts[1].Listen[1].Default || hosts[0].Listen[0].Backlog != 7 {
		t.Errorf("%+v", r.Config.Hosts)
	}
}

func TestLocalhostNeedsNoResolver(t *testing.T) {
	got := testkit.Value(listening(newBook(nil), "server { listen localhost:81; }"))(t)
	testkit.Equal(t, got, []string{"127.0.0.1:81"})
}

// On machines without IPv6, a name's IPv6 addresses are left out.
func TestUnreachableAddressesAreLeftOut(t *testing.T) {
	b := newBook(map[string]string{"a.test": "::1 10.0.0.1 ::ffff:10.0.0.2"})
	found := testkit.Value(reachable(b.lookup)(timeBound(t), "ip", "a.test"))(t)
	if got, want := slices.ContainsFunc(found, func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() }),
		hasIPv6(); got != want || len(found) < 2 {
		t.Errorf("%v, though IPv6 is here: %v", found, want)
	}
}

func timeBound(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), resolveTime)
	t.Cleanup(cancel)
	return ctx
}

func cipherNames(ids []uint16) string {
	var names []string
	for _, id := range ids {
		names = append(names, grammar.CipherName(id))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Every TLS 1.2 suite of crypto/tls has a unique name.
func TestSuitesHaveUniqueNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range suites() {
		if seen[s.name] || strings.Contains(s.name, "_") || strings.HasSuffix(s.name, "-") {
			t.Errorf("%s has the name %q", s.Name, s.name)
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
		"ECDHE+CHACHA20:!SHA256:!RSA": "ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-RSA-CHACHA20-POLY1305",
		"AES256+AESGCM:!SHA1:!SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-RSA-AES256-GCM-SHA384",
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
// http does not concern servers without TLS. One that is ordered but not used would be a mistake.
func TestIssuedCertificateAndFilesOfAServer(t *testing.T) {
	r := parsed(t, inHTTP(issuerI+`ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
	server { listen 80; }
	server { listen 443 ssl; server_name a.test; acme_certificate i; }
	server { listen 444 ssl; server_name b.test; acme_certificate i;
		ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
		ssl_certificate c.pem; ssl_certificate_key c.key; }
	server { listen 445 ssl; acme_certificate i c.test;
		ssl_certificate c.pem; ssl_certificate_key c.key; }`), Options{})
	for i, want := range []string{"false 0", "true 0", "true 1", "false 1"} {
		l := r.Config.Hosts[i].Listen[0]
		testkit.Equal(t, fmt.Sprint(l.Issued != nil, len(l.Certs)), want, "issued, and from files, by server", i)
	}
	testkit.Equal(t, len(r.Warnings), 1, r.Warnings)
	testkit.Contains(t, r.Warnings[0].Text, "not used")
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
