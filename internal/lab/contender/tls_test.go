package contender_test

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
)

// listens returns nil if a server accepts connections at an address.
func listens(_ context.Context, address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// A contender gets its filled configuration, and the certificate of all contenders of the stage.
func TestConfigAndCertificateAreWritten(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "a.conf"), "{port} {cert} {key}")
	s := stage(t, contender.StageOptions{})
	var pairs []string
	for range 2 {
		c := actor("server")
		c.Dir, c.Config, c.TLS = dir, "a.conf", true
		r := testkit.Value(s.Start(t.Context(), c, contender.Setting{Cores: 1}, listens))(t)
		if !r.Place().TLS {
			t.Error("clients do not connect by TLS")
		}
		port, pair, _ := strings.Cut(string(r.Files["a.conf"]), " ")
		if !strings.HasSuffix(r.Address, ":"+port) {
			t.Errorf("the configuration has port %q, the contender %s", port, r.Address)
		}
		pairs = append(pairs, pair)
		cert, key, _ := strings.Cut(pair, " ")
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			t.Error(err)
		}
		testkit.Check(t, r.Stop())
	}
	if pairs[0] != pairs[1] {
		t.Errorf("the contenders have %q and %q", pairs[0], pairs[1])
	}
}
