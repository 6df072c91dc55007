package nginxconf

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// nginx and Parse accept typical configurations of well-known applications.
func TestTypicalConfigurationsAreAccepted(t *testing.T) {
	tool := programs.Nginx(t)
	names, err := filepath.Glob(filepath.Join("testdata", "typical", "*.conf"))
	if err != nil || len(names) < 30 {
		t.Fatalf("%d configurations, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".conf"), func(t *testing.T) {
			dir := t.TempDir()
			b, err := os.ReadFile(name)
			testkit.Must(t, err)
			text := strings.ReplaceAll(string(b), "@sock", "unix:"+dir+"/s")
			writeTypical(t, dir, tool.Etc)
			conf := filepath.Join(dir, "nginx.conf")
			testkit.Must(t, os.WriteFile(conf, []byte(aCase{level: "http", text: text}.wrapped(dir)), 0o600))
			if output, err := tried(t, tool, dir, conf); err != nil {
				t.Errorf("nginx rejects it: %s", output)
			}
			r, err := Parse(conf, Options{Prefix: dir})
			testkit.Must(t, err)
			h, err := front.New(r.Config)
			testkit.Must(t, err)
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// writeTypical writes the files that the configurations refer to.
func writeTypical(t *testing.T, dir, etc string) {
	t.Helper()
	params, err := os.ReadFile(filepath.Join(etc, "fastcgi_params"))
	testkit.Must(t, err)
	cert, key := testkit.SelfSign(t, x509.Certificate{})
	for name, b := range map[string][]byte{"fastcgi_params": params, "htpasswd": []byte("a:{PLAIN}b\n"),
		"cert.pem": cert, "key.pem": key} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
}
