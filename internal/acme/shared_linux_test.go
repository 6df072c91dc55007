package acme

import (
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// Certificates that share names are ordered at the same time. The issuer's handshakes for
// TLS-ALPN-01 have only the name, and yet each order succeeds at its first attempt.
func TestCertificatesShareNamesOfTLSALPN(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{})
	issuer := s.issuer(filepath.Join(t.TempDir(), "state"))
	issuer.Challenge = "tls-alpn-01"
	config := configOf("a.test b.test", issuer)
	for _, names := range [][]string{{"b.test", "a.test", "c.test"}, {"b.test"}, {"c.test", "a.test"}} {
		config.Hosts = append(config.Hosts, conf.Host{Listen: []conf.Listen{{Addr: "*:443", TLS: true,
			Issued: &conf.Issued{Issuer: issuer.Name, Names: names}}}})
	}
	s.run(config, Config{})
	s.awaitIssued(4)
	if n := s.lines.count("next attempt"); n > 0 {
		t.Errorf("%d orders failed:\n%s", n, s.lines.text())
	}
}
