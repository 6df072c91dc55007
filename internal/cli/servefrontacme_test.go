package cli_test

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// acmeFront returns the folder of a server whose certificate is issued by a Pebble, and the address
// of its TLS.
func acmeFront(t *testing.T) (f *frontSite, address string) {
	t.Helper()
	f = newFrontSite(t)
	free := programs.FreeAddresses(t, 2)
	plain, secure := free[0], free[1]
	pebble := programs.StartPebble(t, programs.PebbleConfig{HTTPPort: portOf(t, plain), TLSPort: portOf(t, secure)})
	ca, err := os.ReadFile(pebble.CAFile)
	testkit.Must(t, err)
	write(t, f.path("ca.pem"), string(ca))
	f.configure(fmt.Sprintf(`user nobody;
events {}
http {
	acme_issuer pebble { uri %s; ssl_trusted_certificate DIR/ca.pem; state_path DIR/state; accept_terms_of_service; }
	server { listen %s; return 301 https://$host/; }
	server {
		listen %s ssl; server_name a.test; acme_certificate pebble; return 200 a;
		ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;
	}
}
`, pebble.Directory, plain, secure))
	openToAll(t, f.path("ca.pem"), f.path("nginx.conf"))
	return f, secure
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	testkit.Must(t, err)
	n, err := strconv.Atoi(port)
	testkit.Must(t, err)
	return n
}

func serialOf(t *testing.T, address string) string {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true})
	testkit.Must(t, err)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// Started as root, the folder of the state belongs to the user that serves, and to no one else. The
// state outlives reloads and restarts.
func TestServingUserOwnsTheACMEFolder(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can change the user")
	}
	f, address := acmeFront(t)
	f.start()
	f.await("tare: acme: a.test: no certificate yet: TLS handshakes for it fail until pebble has issued one\n")
	f.await("tare: acme: a.test: pebble has issued a certificate, valid until ")
	before := serialOf(t, address)
	f.reload()
	if after := serialOf(t, address); after != before {
		t.Error("a reload has changed the certificate")
	}
	if code := f.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	err := filepath.WalkDir(f.path("state"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner == 0 || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the owner %d and the mode %v", path, owner, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	f.start()
	f.await("tare: acme: a.test: certificate valid until .*, renewal about ")
	if after := serialOf(t, address); after != before {
		t.Error("a restart has changed the certificate")
	}
	f.end(syscall.SIGTERM)
}

// If the serving user cannot use the folder or a file in it, the start or the next order reports
// that. -t reports it without changing anything, as far as it can.
func TestUnusableACMEFolderIsReported(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can change the user")
	}
	f, _ := acmeFront(t)
	if out, code := runTare(t, "serve", "-t", "-c", f.path("nginx.conf")); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	if _, err := os.Stat(f.path("state")); err == nil {
		t.Error("-t has created the folder of the state")
	}
	testkit.Must(t, os.Mkdir(f.path("state"), 0o700))
	write(t, f.path("state/account.key"), "secret")
	testkit.Must(t, os.Chmod(f.path("state/account.key"), 0o600))
	f.start()
	f.await(`tare: acme: a.test: pebble: account key: open .*/state/account.key: permission denied\n`)
	f.await(`tare: acme: a.test: no certificate yet: TLS handshakes for it fail; next attempt in `)
	f.end(syscall.SIGTERM)
	old, gone := "state_path "+f.path("state"), "state_path "+f.path("no/state")
	text := strings.Replace(read(t, f.path("nginx.conf")), old, gone, 1)
	write(t, f.path("nginx.conf"), text)
	out, code := runTare(t, "serve", "-c", f.path("nginx.conf"))
	if code == 0 || !strings.Contains(out, "acme_issuer pebble: state_path: ") ||
		!strings.Contains(out, "create "+f.path("no")+" first") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// runTare runs the command and returns its output and exit code.
func runTare(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	cmd := serveCommandLine()
	cmd.Args = append(cmd.Args[:1], args...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
