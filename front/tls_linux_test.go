package front_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// issue returns a certificate of a client or an authority, which an authority has signed, or itself.
func issue(t *testing.T, name string, by *tlstest.Issued, change func(*x509.Certificate)) *tlstest.Issued {
	t.Helper()
	template := x509.Certificate{Subject: pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if strings.Contains(name, "authority") {
		template.IsCA, template.BasicConstraintsValid, template.ExtKeyUsage = true, true, nil
		template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	}
	if change != nil {
		change(&template)
	}
	return tlstest.Issue(t, template, by)
}

// shown returns what a client sends.
func shown(own *tlstest.Issued, others ...*tlstest.Issued) []tls.Certificate {
	c := tls.Certificate{Certificate: [][]byte{own.Raw}, PrivateKey: own.Key}
	for _, other := range others {
		c.Certificate = append(c.Certificate, other.Raw)
	}
	return []tls.Certificate{c}
}

// revoking returns a revocation list in PEM, which is valid until a time.
func revoking(t *testing.T, by *tlstest.Issued, until time.Time, revoked ...*big.Int) string {
	t.Helper()
	der := by.Revoke(t, time.Now().Add(-2*time.Hour), until, revoked...)
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

func inPEM(c *tlstest.Issued) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

const verifiedHead = `ssl_certificate DIR/server.pem; ssl_certificate_key DIR/server.key; ssl_session_cache shared:x:1m;
	server { listen LISTEN ssl default_server; server_name open; return 200 "open $ssl_client_verify"; }
`

// Client certificates are verified as by nginx, for all modes, authorities, depths and revocation
// lists.
func TestClientCertificatesAreVerifiedAsByNginx(t *testing.T) {
	testkit.NoRace(t, "it makes a thousand handshakes, one after another")
	dir := testkit.ShortDir(t)
	past := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}
	future := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	}
	serverOnly := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	root, other := issue(t, "root authority", nil, nil), issue(t, "other authority", nil, nil)
	between := issue(t, "between authority", root, nil)
	deeper := issue(t, "deeper authority", between, nil)
	late := issue(t, "late authority", root, past)
	direct, deep, deepest, revoked := issue(t, "direct", root, nil), issue(t, "deep", between, nil),
		issue(t, "deepest", deeper, nil), issue(t, "revoked", root, nil)
	clients := map[string][]tls.Certificate{
		"none": nil, "direct": shown(direct), "deep": shown(deep), "deep with those between": shown(deep, between),
		"deepest":       shown(deepest, deeper, between),
		"deep with all": shown(deep, between, root), "revoked": shown(revoked),
		"by a revoked authority": shown(issue(t, "x", late, nil), late),
		"expired":                shown(issue(t, "expired", root, past)),
		"future":                 shown(issue(t, "future", root, future)),
		"server's":               shown(issue(t, "usage", root, serverOnly)),
		"expired of another":     shown(issue(t, "expired", other, past)),
		"server's of another":    shown(issue(t, "usage", other, serverOnly)),
		"its own":                shown(issue(t, "own", nil, nil)),
		"another's":              shown(issue(t, "another", other, nil)),
		"another's with all":     shown(issue(t, "another", other, nil), other),
		"by no authority":        shown(issue(t, "below", direct, nil), direct),
		"any usage":              shown(issue(t, "any", root, func(c *x509.Certificate) { c.ExtKeyUsage = nil })),
	}
	server, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"open"}})
	hour := time.Now().Add(time.Hour)
	for name, text := range map[string]string{
		"server.pem": string(server), "server.key": string(key),
		"root": inPEM(root), "both": inPEM(root) + inPEM(between), "between": inPEM(between), "other": inPEM(other),
		"crl":     revoking(t, root, hour, revoked.SerialNumber, late.SerialNumber) + revoking(t, between, hour),
		"rootcrl": revoking(t, root, hour),
		"oldcrl":  revoking(t, root, time.Now().Add(-time.Hour), revoked.SerialNumber),
	} {
		testkit.WriteFile(t, filepath.Join(dir, name), text)
	}

	var text strings.Builder
	names := []string{"open"}
	text.WriteString(verifiedHead)
	for _, mode := range []string{"on", "optional", "optional_no_ca"} {
		for _, rest := range []string{
			"ssl_client_certificate DIR/root;", "ssl_client_certificate DIR/root; ssl_verify_depth 0;",
			"ssl_client_certificate DIR/both; ssl_verify_depth 0;",
			"ssl_client_certificate DIR/both;", "ssl_client_certificate DIR/root; ssl_verify_depth 2;",
			"ssl_client_certificate DIR/between;",
			"ssl_client_certificate DIR/other; ssl_trusted_certificate DIR/both;",
			"ssl_client_certificate DIR/both; ssl_crl DIR/crl;",
			"ssl_client_certificate DIR/both; ssl_crl DIR/rootcrl;",
			"ssl_client_certificate DIR/both; ssl_crl DIR/oldcrl;",
		} {
			name := fmt.Sprintf("case%d", len(names))
			fmt.Fprintf(&text, "server { listen LISTEN ssl; server_name %s also%s; ssl_verify_client %s; %s return 200 \"%[1]s $ssl_client_verify\"; } # %s\n", name, name, mode, rest, mode)
			names = append(names, name)
		}
	}
	fmt.Fprintf(&text, "server { listen LISTEN ssl; server_name noca; ssl_verify_client optional_no_ca; return 200 \"noca $ssl_client_verify\"; }\n")
	names = append(names, "noca")
	conf := func(listen string) string {
		return strings.NewReplacer("LISTEN", listen, "DIR", dir).Replace(text.String())
	}
	lines := strings.Split(text.String(), "\n")

	theirs := programs.FreeAddress(t)
	startNginx(t, "tcp", theirs, dir, conf(theirs))
	ours := serveTLSConf(t, dir, conf)
	for name, certs := range clients {
		for i, to := range names {
			want, got := requestWithCerts(t, theirs, to, to, certs), requestWithCerts(t, ours, to, to, certs)
			testkit.Equal(t, got, want, name, lines[i+len(lines)-2-len(names)])
		}
	}
	for _, name := range []string{"none", "direct", "another's"} {
		for _, sniName := range []string{"", "open", "case1", "case11", "nobody"} {
			want := requestTLS(t, theirs, "", &tls.Config{ServerName: sniName, Certificates: clients[name]})
			got := requestTLS(t, ours, "", &tls.Config{ServerName: sniName, Certificates: clients[name]})
			testkit.Equal(t, got, want, name, "a handshake with", sniName, "and a request without Host")
		}
		for _, sniName := range []string{"", "open", "case1", "case11", "case21", "nobody", "alsocase1"} {
			for _, received := range []string{"open", "case1", "case11", "case21", "case1:443", "CASE1", "case1.",
				"alsocase1", "nobody", "case7"} {
				want, got := requestWithCerts(t, theirs, sniName, received, clients[name]),
					requestWithCerts(t, ours, sniName, received, clients[name])
				testkit.Equal(t, got, want, name, "a handshake with", sniName, "and a request for", received)
			}
		}
	}
}

// Certificates of upstreams are verified as by nginx: only self-signed ones are trust anchors, and
// other trusted certificates continue chains.
func TestUpstreamCertificatesAreVerifiedAsByNginx(t *testing.T) {
	dir := testkit.ShortDir(t)
	named := func(c *x509.Certificate) { c.DNSNames, c.ExtKeyUsage = []string{"a.test"}, nil }
	root := issue(t, "root authority", nil, nil)
	between := issue(t, "between authority", root, nil)
	direct, deep := issue(t, "direct", root, named), issue(t, "deep", between, named)
	next := issue(t, "root authority", root, func(c *x509.Certificate) { c.AuthorityKeyId = root.SubjectKeyId })
	hour := time.Now().Add(time.Hour)
	for name, text := range map[string]string{"root": inPEM(root), "next": inPEM(next), "both": inPEM(between) + inPEM(root),
		"between": inPEM(between), "leaf": inPEM(deep),
		"crl": revoking(t, root, hour, direct.SerialNumber) + revoking(t, between, hour)} {
		testkit.WriteFile(t, filepath.Join(dir, name), text)
	}
	var text strings.Builder
	for i, chain := range [][]tls.Certificate{
		shown(direct), shown(deep), shown(deep, between), shown(deep, between, root), shown(issue(t, "new", next, named)),
	} {
		addr := serveTLS(t, &tls.Config{Certificates: chain}, shows).Listener.Addr()
		for n, rest := range []string{"root", "both", "between", "leaf", "next", "root; proxy_ssl_verify_depth 0",
			"both; proxy_ssl_verify_depth 0", "both; proxy_ssl_crl DIR/crl"} {
			fmt.Fprintf(&text, "location /%d%d { proxy_pass https://%s; proxy_ssl_trusted_certificate DIR/%s; }\n",
				i, n, addr, rest)
		}
	}
	// nginx's locations share sessions of an address, which keep the result of the first verification
	outer := "proxy_ssl_verify on; proxy_ssl_session_reuse off; proxy_ssl_name a.test;"
	server := strings.ReplaceAll(text.String(), "DIR", dir)
	theirs, ours := besideNginx(t, outer, server)
	for _, line := range strings.Split(strings.TrimSpace(server), "\n") {
		path := strings.Fields(line)[1]
		testkit.Equal(t, ours.get(path).status, theirs.get(path).status, line)
	}
}

// serverName is what identifies the server in an error page.
var serverName = regexp.MustCompile(`<center>(nginx|tare)(/[^<]*)?</center>`)

// requestTLS returns status and body of the response to a request for a host, or to one without Host.
func requestTLS(t *testing.T, addr, host string, config *tls.Config) string {
	t.Helper()
	config.InsecureSkipVerify = true
	c := tls.Client(dial(t, "tcp", addr, ""), config)
	defer c.Close()
	request := "GET / HTTP/1.0\r\n\r\n"
	if host != "" {
		request = "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
	}
	testkit.Send(t, c, request)
	head, body, _ := strings.Cut(string(testkit.Value(io.ReadAll(c))(t)), "\r\n\r\n")
	return strings.Fields(head)[1] + " " + serverName.ReplaceAllString(body, "SERVER")
}

// requestWithCerts is requestTLS by a client that names a server in the handshake, and sends its
// certificates whatever the server requests.
func requestWithCerts(t *testing.T, addr, name, host string, certs []tls.Certificate) string {
	t.Helper()
	return requestTLS(t, addr, host, &tls.Config{ServerName: name,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if certs == nil {
				return new(tls.Certificate), nil
			}
			return &certs[0], nil
		}})
}

// serveTLSConf serves a configuration, with the handshakes of its hosts.
func serveTLSConf(t *testing.T, dir string, conf func(listen string) string) (addr string) {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	path := filepath.Join(dir, "tare.conf")
	testkit.WriteFile(t, path, "events {} http { access_log off;\n"+conf(l.Addr().String())+"}")
	h := newFront(t, testkit.Value(nginxconf.Parse(path, nginxconf.Options{Prefix: dir}))(t).Config)
	pair := testkit.Value(tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")))(t)
	serveTest(t, h, func(s *httptest.Server) {
		s.Listener.Close()
		s.Listener = l
		s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c := &tls.Config{}
			host, _ := h.HostAt(hello.Conn.LocalAddr(), hello.ServerName)
			if own := host.Listen[0].TLSConfig; own != nil {
				c = own.Clone()
			}
			c.Certificates = []tls.Certificate{pair}
			return c, nil
		}}
	})
	return l.Addr().String()
}

// The variables of TLS and of client certificates are nginx's.
func TestTLSVariablesAreNginxs(t *testing.T) {
	const names = "ssl_protocol ssl_cipher ssl_curve ssl_server_name ssl_alpn_protocol ssl_session_reused ssl_early_data ssl_client_verify ssl_client_s_dn " +
		"ssl_client_i_dn ssl_client_s_dn_legacy ssl_client_i_dn_legacy ssl_client_serial ssl_client_fingerprint ssl_client_v_start ssl_client_v_end " +
		"ssl_client_v_remain ssl_client_escaped_cert ssl_client_raw_cert ssl_client_cert"
	text := "$" + strings.ReplaceAll(names, " ", "\n$")
	certFile, keyFile := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"tls.example"}})
	testkit.WriteFile(t, certFile, string(cert))
	testkit.WriteFile(t, keyFile, string(key))
	pair := testkit.Value(tls.X509KeyPair(cert, key))(t)

	theirs := programs.FreeAddress(t)
	startNginx(t, "tcp", theirs, testkit.ShortDir(t), fmt.Sprintf(`ssl_certificate %s; ssl_certificate_key %s;
		ssl_verify_client optional_no_ca; ssl_ecdh_curve X25519:P-384:P-256; ssl_protocols TLSv1.2 TLSv1.3;
		server { listen %s ssl; return 200 "%s"; }`, certFile, keyFile, theirs, text))
	ours := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert},
		confFront(t, "", `return 200 "`+text+`";`, nil).ServeHTTP).Listener.Addr().String()

	reason := regexp.MustCompile(`(?m)^FAILED:.*`) // in OpenSSL's words, or in ours
	mine := clientCertificate(t)
	for name, config := range map[string]*tls.Config{
		"TLS 1.3":            {},
		"TLS 1.2":            {MaxVersion: tls.VersionTLS12},
		"P-384":              {CurvePreferences: []tls.CurveID{tls.CurveP384}},
		"with a certificate": {Certificates: []tls.Certificate{mine}},
		"with one, and a cipher": {Certificates: []tls.Certificate{mine}, MaxVersion: tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}},
		"another protocol as well": {NextProtos: []string{"http/1.1"}, CurvePreferences: []tls.CurveID{tls.X25519}},
	} {
		config.ServerName = "tls.example"
		if config.CurvePreferences == nil {
			// the certificate's, which TLS 1.2 requires
			config.CurvePreferences = []tls.CurveID{tls.CurveP256}
		}
		shown := func(addr string) []string {
			text := strings.ReplaceAll(requestTLS(t, addr, "tls.example", config), "\n\t", " ")
			return strings.Split(reason.ReplaceAllString(text, "FAILED"), "\n")
		}
		testkit.Equal(t, shown(ours), shown(theirs), name)
	}
}

// clientCertificate returns a certificate whose name has several parts.
func clientCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	email := pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, Value: "a@tls.example"}
	cert, key := tlstest.SelfSign(t, x509.Certificate{NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(100*24*time.Hour + 12*time.Hour), Subject: pkix.Name{
			Country: []string{"DE"}, Organization: []string{"tare, ink+\"\\<>; ="}, OrganizationalUnit: []string{" ä "},
			CommonName: "#a client", ExtraNames: []pkix.AttributeTypeAndValue{email},
		}})
	return testkit.Value(tls.X509KeyPair(cert, key))(t)
}
