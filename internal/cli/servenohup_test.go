package cli_test

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// ignoring returns a command that starts the server with SIGHUP and SIGINT ignored, as nohup and
// background jobs of shell scripts do.
func ignoring(args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", `trap "" HUP INT; exec tare serve "$@"`, "sh"}, args...)...)
}

// A file server without a certificate has nothing to reload: SIGHUP ends it, except under nohup.
func TestFileServerIgnoresSIGHUPUnderNohup(t *testing.T) {
	t.Parallel()
	dir := site(t)
	s := startServed(t, ignoring("--listen", "127.0.0.1:0", dir))
	address := s.address()
	for i := range 5 {
		s.signal(syscall.SIGHUP)
		s.signal(syscall.SIGUSR1)
		awaitRepeated(t, s, "logs: reopened", i+1) // it still handles signals
	}
	get(t, http.DefaultClient, "http://"+address, "hello")
	s.stop(syscall.SIGTERM)
	s = serveFiles(t, "--listen", "127.0.0.1:0", dir)
	s.address()
	testkit.Equal(t, s.end(syscall.SIGHUP), 0, "exit code without nohup")
}

func TestSIGHUPReloadsTheCertificateUnderNohup(t *testing.T) {
	t.Parallel()
	dir := site(t)
	cert, key := filepath.Join(filepath.Dir(dir), "cert.pem"), filepath.Join(filepath.Dir(dir), "key.pem")
	putCertificate(t, cert, key, 1)
	s := startServed(t, ignoring("--listen", "127.0.0.1:0", "-c", cert, "-k", key, dir))
	s.await("certificate: example.org, until")
	s.signal(syscall.SIGHUP)
	s.await("certificate: unchanged")
}
